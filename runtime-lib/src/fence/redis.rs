//! Fences in Redis: a write is a script that checks them first.

use std::fmt;
use std::sync::{Arc, LazyLock};

use leasehold_core::fence::{Claim, NotRaised, Refused, Stale};
use leasehold_core::id::{FencingToken, InvalidToken};
use redis::aio::{ConnectionLike, ConnectionManager};
use redis::{ErrorKind, FromRedisValue, RedisError, Script, ScriptInvocation, Value};

use super::{FenceError, checked};
use crate::leadership::Fence;

static RAISE: LazyLock<Script> = LazyLock::new(|| Script::new(include_str!("redis/raise.lua")));
static WRITE: LazyLock<Script> = LazyLock::new(|| Script::new(include_str!("redis/write.lua")));

/// The positive control: the writes without the check. Only tests can choose it.
static UNCHECKED: LazyLock<Script> = LazyLock::new(|| {
    let lines = include_str!("redis/write.lua").lines();
    let kept: Vec<&str> = lines.filter(|line| !line.starts_with("if ")).collect();
    Script::new(&kept.join("\n"))
});

/// Most words of a command: a script can hand on about 8,000.
const WORDS_MAX: usize = 4000;

/// Fences in the Redis that they guard.
///
/// ```no_run
/// use leasehold::PartitionGuard;
/// use leasehold::fence::{Commands, RedisFences};
///
/// # type Outcome = Result<(), Box<dyn std::error::Error>>;
/// async fn own(guard: &PartitionGuard) -> Outcome {
///     let fences = RedisFences::connect("redis://127.0.0.1/", "orders").await?;
///     guard.raise(&fences).await?; // before the first read (H9)
///     let commands = Commands::new()
///         .command("HSET", &["{orders}:7"], &["state", "paid"])
///         .command("INCRBY", &["{orders}:paid"], &["1"]);
///     let (_, paid): (i64, i64) = fences.write(guard.claim()?, &commands).await?;
///     println!("{paid} paid");
///     Ok(())
/// }
/// ```
///
/// One key holds the fences of a service: the sorted set `leasehold:{<service>}:fences`, with an
/// entry for each range of the present layout, and for what is left of former ones until all of
/// their successors were raised. In a Redis Cluster all keys of a write must be in its slot: give
/// them the same hash tag, `{<service>}`.
///
/// Each raise and each write is one script, and scripts run one at a time; so a write comes before
/// a raise, and the new owner reads it, or after it, and is refused.
///
/// # What is not promised
///
/// Redis answers before a write is safe. After a failover, or a restart without its last second, a
/// raise that was acknowledged may be lost, and so may writes; a late write that it had shut out is
/// then taken, until a fence above it is raised again. If that must not be, guard a Postgres.
/// With a `maxmemory-policy` other than `noeviction` Redis may also drop the fences for room. What
/// has lost its fences takes no write until someone raises them again
/// ([`NotRaised`](FenceError::NotRaised)).
#[derive(Clone)]
pub struct RedisFences<C = ConnectionManager> {
    connection: C,
    service: Arc<str>,
    key: Arc<str>,
    checks: bool,
}

impl RedisFences {
    /// Connects to a Redis, and again whenever the connection is lost. TLS (`rediss://`) and
    /// clusters need a connection of one's own: [`new`](Self::new).
    pub async fn connect(url: &str, service: &str) -> Result<Self, FenceError> {
        let service = checked(service)?;
        let connecting = async { ConnectionManager::new(redis::Client::open(url)?).await };
        match connecting.await {
            Ok(connection) => Self::new(connection, &service),
            Err(error) => Err(failed(&service, "connecting to Redis".to_owned(), error)),
        }
    }
}

impl<C: ConnectionLike + Clone + Send + Sync> RedisFences<C> {
    /// The fences of a service in the Redis of this connection, whose clones share it.
    pub fn new(connection: C, service: &str) -> Result<Self, FenceError> {
        let service = checked(service)?;
        let key = format!("leasehold:{{{service}}}:fences").into();
        Ok(Self {
            connection,
            service,
            key,
            checks: true,
        })
    }

    /// Runs the commands if the claim may write, and answers with their replies in order: a tuple,
    /// or a `Vec`. Either all are run or none, and nothing else meanwhile. As in every script, what
    /// a command has done stays if a later one fails.
    ///
    /// When it is cancelled or fails on its way, the commands may have been run.
    pub async fn write<T: FromRedisValue>(
        &self,
        claim: Claim,
        commands: &Commands,
    ) -> Result<T, FenceError> {
        let failed = |error| {
            failed(
                &self.service,
                format!("writing under {claim} to Redis"),
                error,
            )
        };
        if let Some(words) = commands.too_long {
            let found = format!("a command of {words} words, allowed are {WORDS_MAX}");
            return Err(failed(
                (ErrorKind::InvalidClientConfig, "command", found).into(),
            ));
        }
        let script = if self.checks { &WRITE } else { &UNCHECKED };
        let mut call = script.key(&*self.key);
        for key in &commands.keys {
            call.key(&key[..]);
        }
        show(&mut call, claim);
        for word in &commands.words {
            call.arg(&word[..]);
        }
        let mut connection = self.connection.clone();
        let answer: Vec<Value> = call.invoke_async(&mut connection).await.map_err(failed)?;
        let mut answer = answer.into_iter();
        let verdict: String = taken(answer.next()).map_err(failed)?;
        let refused = match verdict.as_str() {
            "" => {
                let replies = Value::Array(answer.collect());
                return T::from_redis_value(replies).map_err(|error| failed(error.into()));
            }
            "stale" => {
                let highest: String = taken(answer.next()).map_err(failed)?;
                Refused::Stale(Stale {
                    shown: claim.token,
                    highest: above(&highest).map_err(failed)?,
                })
            }
            _ => {
                let raised: String = taken(answer.next()).map_err(failed)?;
                Refused::NotRaised(NotRaised {
                    shown: claim.token,
                    raised: parsed(&raised).map_err(failed)?,
                })
            }
        };
        Err(FenceError::refused(&self.service, claim, refused))
    }

    async fn raise_now(&self, claim: Claim) -> Result<(), FenceError> {
        let failed = |error| failed(&self.service, format!("raising {claim} in Redis"), error);
        let mut call = RAISE.key(&*self.key);
        show(&mut call, claim);
        let mut connection = self.connection.clone();
        let answer: String = call.invoke_async(&mut connection).await.map_err(failed)?;
        if answer.is_empty() {
            return Ok(());
        }
        let highest = above(&answer).map_err(failed)?;
        let shown = claim.token;
        let refused = Refused::Stale(Stale { shown, highest });
        Err(FenceError::refused(&self.service, claim, refused))
    }
}

/// For the positive controls of tests: what the check prevents, happens without it.
#[cfg(any(test, feature = "testing"))]
impl<C> RedisFences<C> {
    /// Writes compare no tokens.
    #[must_use]
    pub fn without_check(self) -> Self {
        Self {
            checks: false,
            ..self
        }
    }
}

impl<C: ConnectionLike + Clone + Send + Sync> Fence for RedisFences<C> {
    type Error = FenceError;

    fn raise(&self, claim: Claim) -> impl Future<Output = Result<(), FenceError>> + Send {
        self.raise_now(claim)
    }
}

/// Without the connection, which knows how to log in.
impl<C> fmt::Debug for RedisFences<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RedisFences")
            .field("service", &self.service)
            .field("key", &self.key)
            .finish_non_exhaustive()
    }
}

/// Commands that are run together, in order.
#[derive(Clone, Default)]
pub struct Commands {
    keys: Vec<Vec<u8>>,
    /// Of each command the number of its words, and these.
    words: Vec<Vec<u8>>,
    /// How many words the first command has that has too many.
    too_long: Option<usize>,
}

impl Commands {
    /// No command.
    pub fn new() -> Self {
        Self::default()
    }

    /// One more command: its name, all keys that it uses, and what comes behind them. Commands
    /// whose keys do not come first, one after the other, are split into several.
    #[must_use]
    pub fn command(
        mut self,
        name: &str,
        keys: &[impl AsRef<[u8]>],
        arguments: &[impl AsRef<[u8]>],
    ) -> Self {
        let count = 1 + keys.len() + arguments.len();
        if count > WORDS_MAX {
            self.too_long.get_or_insert(count);
        }
        let keys = keys.iter().map(|key| key.as_ref().to_vec());
        let arguments = arguments.iter().map(|word| word.as_ref().to_vec());
        self.words.push(count.to_string().into());
        self.words.push(name.into());
        self.words.extend(keys.clone());
        self.words.extend(arguments);
        self.keys.extend(keys);
        self
    }
}

/// The arguments that all scripts begin with.
fn show(call: &mut ScriptInvocation<'_>, claim: Claim) {
    let behind = claim.range.next().map(|hash| format!("{hash:016x}"));
    call.arg(format!("{:016x}", claim.range.first()))
        .arg(behind.unwrap_or_default())
        .arg(text(claim.token));
}

/// A token in fixed widths: scripts compare texts, since their numbers are not exact.
fn text(token: FencingToken) -> String {
    format!("{:010}.{:019}", token.era(), token.revision().number())
}

/// A token of that text; `None` if it stands for none.
fn parsed(text: &str) -> Result<Option<FencingToken>, RedisError> {
    if text.bytes().all(|byte| matches!(byte, b'0' | b'.')) {
        return Ok(None);
    }
    let token = text.parse();
    token
        .map(Some)
        .map_err(|error: InvalidToken| unreadable(error.to_string()))
}

/// A token that is above the shown one, so there is one.
fn above(text: &str) -> Result<FencingToken, RedisError> {
    parsed(text)?.ok_or_else(|| unreadable("found no token above the one shown".to_owned()))
}

fn taken<T: FromRedisValue>(value: Option<Value>) -> Result<T, RedisError> {
    Ok(T::from_redis_value(value.unwrap_or(Value::Nil))?)
}

fn unreadable(found: String) -> RedisError {
    (ErrorKind::UnexpectedReturnType, "fences", found).into()
}

fn failed(service: &Arc<str>, step: String, error: RedisError) -> FenceError {
    FenceError::Store {
        service: Arc::clone(service),
        step,
        source: error.into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_are_texts_that_compare_as_tokens_do() {
        let token = |text: &str| text.parse::<FencingToken>().unwrap();
        let ascending = ["0.1", "0.9", "0.10", "0.9223372036854775807", "2.3", "10.1"];
        let texts: Vec<String> = ascending.iter().map(|it| text(token(it))).collect();
        assert!(texts.is_sorted(), "{texts:?}");
        for (written, read) in ascending.iter().zip(&texts) {
            assert_eq!(parsed(read).unwrap(), Some(token(written)));
            assert_eq!(read.len(), 30);
        }
        assert_eq!(parsed("0000000000.0000000000000000000").unwrap(), None);
        assert!(parsed("garbage").is_err() && above("").is_err());
    }

    #[test]
    fn commands_are_packed_with_their_lengths_and_their_keys_declared() {
        let commands = Commands::new()
            .command("HSET", &["{a}:1"], &["field", "value"])
            .command("DEL", &["{a}:2", "{a}:3"], &[""; 0]);
        let words = [
            "4", "HSET", "{a}:1", "field", "value", "3", "DEL", "{a}:2", "{a}:3",
        ];
        assert_eq!(commands.words, words.map(Vec::from));
        assert_eq!(commands.keys, ["{a}:1", "{a}:2", "{a}:3"].map(Vec::from));
        let long = Commands::new().command("DEL", &vec!["k"; 4000], &[""; 0]);
        assert_eq!(long.too_long, Some(4001));
    }

    #[test]
    fn the_script_without_its_check_differs_from_the_other() {
        assert_ne!(UNCHECKED.get_hash(), WRITE.get_hash());
    }
}
