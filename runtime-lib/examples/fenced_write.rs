//! Why the token matters: a leader is paused between its check and its write, another one leads
//! meanwhile, and the late write is refused by the store, because its token is older.
//!
//! `cargo run -p leasehold --example fenced_write`

use std::error::Error;
use std::sync::{Arc, Mutex, PoisonError};

use leasehold::{Claim, Cluster, Fence, FencingToken, LeaseTiming};

/// A store that keeps the highest token it was shown. A database does the same with a column and
/// `UPDATE … SET token = $new WHERE token <= $new`.
#[derive(Default)]
struct Account {
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    balance: i64,
    highest: Option<FencingToken>,
}

#[derive(Debug, PartialEq)]
struct Refused {
    shown: FencingToken,
    highest: FencingToken,
}

impl Account {
    fn write(&self, token: FencingToken, change: i64) -> Result<i64, Refused> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(highest) = state.highest.filter(|highest| token < *highest) {
            return Err(Refused {
                shown: token,
                highest,
            });
        }
        state.highest = Some(token);
        state.balance += change;
        Ok(state.balance)
    }
}

impl Fence for Account {
    type Error = Refused;

    async fn raise(&self, claim: Claim) -> Result<(), Refused> {
        self.write(claim.token, 0).map(|_| ())
    }
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let account = Arc::new(Account::default());
    let (paused, mut was_paused) = tokio::sync::mpsc::unbounded_channel();

    // The first leader checks, and then, before it writes, its process stands still: a task that
    // has been handed the token stands for whatever the kernel or a garbage collector held up.
    let first = Cluster::builder().build().await?;
    let service = first
        .service("ledger")
        .leader_elected()
        .timing(LeaseTiming::FAST);
    let leading = service.spawn({
        let account = Arc::clone(&account);
        move |leadership| {
            let (account, paused) = (Arc::clone(&account), paused.clone());
            async move {
                if leadership.raise(account.as_ref()).await.is_err() {
                    return;
                }
                if let Ok(token) = leadership.check() {
                    println!("first:  may write with token {token}, and is paused right here");
                    let _ = paused.send(token);
                }
                leadership.draining().await;
            }
        }
    })?;
    let late_token = was_paused
        .recv()
        .await
        .ok_or("the first leader never led")?;
    println!(
        "first:  a write now would pass: balance {}",
        show(account.write(late_token, 10))?
    );
    first.shutdown();
    leading.finished().await?;

    let second = Cluster::builder().build().await?;
    let service = second
        .service("ledger")
        .leader_elected()
        .timing(LeaseTiming::FAST);
    let outcome = service.run(|leadership| {
        let (account, cluster) = (Arc::clone(&account), second.clone());
        async move {
            // H9: raise the fence before the first read, and the past can no longer write.
            if leadership.raise(account.as_ref()).await.is_ok() {
                println!("second: leads with token {}", leadership.token());
                println!("second: writes: {:?}", account.write(leadership.token(), 5));
            }
            cluster.shutdown();
        }
    });
    outcome.await?;

    match account.write(late_token, 1_000_000) {
        Ok(balance) => Err(format!("a stale write passed: balance {balance}").into()),
        Err(Refused { shown, highest }) => {
            println!("first:  wakes up and writes: refused, token {shown} is older than {highest}");
            Ok(())
        }
    }
}

fn show(outcome: Result<i64, Refused>) -> Result<i64, String> {
    outcome.map_err(|refused| format!("{refused:?}"))
}
