//! As one tenant, everything that reaches another or tells of it: refused, or a leak that the docs name
//! together with the profile that closes it.

use std::collections::BTreeSet;

use leasehold_e2e::error::Result;
use leasehold_e2e::servers::Redis;
use leasehold_operator::backend::Slot;
use leasehold_operator::backend::redis::Profile;
use redis::RedisError;
use redis::aio::MultiplexedConnection;

use crate::attempts::{CHANNELS, KEYS, LEAK, LOOKED_AT, Outcome, SERVER};
use crate::subject::{log_in, run, standalone, subject, verifier};
use Outcome::{Permitted, Refused};

/// What the other tenant keeps secret.
const SECRET: &str = "canary-of-bob";

/// Words at blanks, except between double quotes.
fn words(line: &str) -> Vec<&str> {
    let mut all = Vec::new();
    for (index, part) in line.split('"').enumerate() {
        if index % 2 == 0 {
            all.extend(part.split_ascii_whitespace());
        } else {
            all.push(part);
        }
    }
    all
}

async fn attempt(connection: &mut MultiplexedConnection, line: &str) -> (Outcome, String) {
    let words = words(line);
    let mut command = redis::cmd(words[0]);
    command.arg(&words[1..]);
    let answer: Result<redis::Value, RedisError> = command.query_async(connection).await;
    match answer {
        Ok(value) => (Permitted, format!("{value:?}")),
        Err(error) => {
            let text = format!("{error} {}", error.detail().unwrap_or_default());
            // Some commands are refused to all, before rights are looked at.
            let is_refusal = [
                "permission",
                "NOPERM",
                "command not allowed",
                "executing the script can't",
            ]
            .iter()
            .any(|refusal| text.contains(refusal));
            assert!(!error.is_io_error(), "{line}: {text}");
            (if is_refusal { Refused } else { Permitted }, text)
        }
    }
}

#[tokio::test]
async fn no_command_of_one_tenant_reaches_another_but_the_leaks_that_the_docs_name() -> Result<()> {
    let redis = Redis::start().await?;
    let server = standalone(&redis)?;
    let bob = subject("bob", Profile::Default);
    server.set_login(&bob, 1, &verifier("bob")).await?;
    let mut as_bob = log_in(&redis, &bob, Slot::A, "bob").await?;
    for line in [
        "SET demo:bob:1",
        "LPUSH demo:bob:l",
        "XADD demo:bob:s * f",
        "PFADD demo:bob:p",
    ] {
        let () = run(&mut as_bob, &format!("{line} {SECRET}")).await?;
    }
    let mut admin = redis.connect().await?;
    let library = "#!lua name=lib\nredis.register_function('peek', function(keys, args) return \
                   redis.call('get', args[1] or keys[1]) end)";
    let _: String = redis::cmd("FUNCTION")
        .arg("LOAD")
        .arg(library)
        .query_async(&mut admin)
        .await?;
    let docs = include_str!("../../../docs/redis.md");
    let mut refused = 0;
    for (index, profile) in Profile::ALL.into_iter().enumerate() {
        let alice = subject("alice", profile);
        server.set_login(&alice, 1, &verifier("alice")).await?;
        for (line, expected) in KEYS.iter().chain(CHANNELS).chain(SERVER) {
            // One connection for each: some of them change what it is.
            let mut connection = log_in(&redis, &alice, Slot::A, "alice").await?;
            let (outcome, text) = attempt(&mut connection, line).await;
            assert_eq!(outcome, expected[index], "{profile:?}: {line}: {text}");
            assert!(!text.contains(SECRET), "{profile:?}: {line}: {text}");
            let is_leak = *expected == LEAK;
            assert!(
                is_leak || !text.contains("demo:bob:"),
                "{profile:?}: {line}: {text}"
            );
            let parts = usize::from(["CLIENT", "PUBSUB"].contains(&words(line)[0])) + 1;
            let name = words(line)[..if is_leak { parts } else { 0 }].join(" ");
            assert!(docs.contains(&name), "{name} is missing in docs/redis.md");
            refused += usize::from(outcome == Refused);
        }
        let mut connection = log_in(&redis, &alice, Slot::A, "alice").await?;
        for line in ["SELECT 0", "GET demo:bob:1", "SELECT 1"] {
            let (outcome, _) = attempt(&mut connection, line).await;
            assert_eq!(outcome == Refused, line.starts_with("GET"), "{line}");
        }
    }
    println!("{refused} attempts were refused");
    assert!(refused > 300);
    // Nothing of the other is hurt, and its connection is the one it had.
    let kept: String = run(&mut as_bob, "GET demo:bob:1").await?;
    assert_eq!(kept, SECRET);
    let length: u64 = run(&mut as_bob, "LLEN demo:bob:l").await?;
    assert_eq!(length, 1);
    // The positive control: a user with one rule more reads it.
    let user = subject("alice", Profile::Default).names.login(Slot::A);
    let () = run(&mut admin, &format!("ACL SETUSER {user} ~demo:bob:*")).await?;
    let mut connection = log_in(
        &redis,
        &subject("alice", Profile::Default),
        Slot::A,
        "alice",
    )
    .await?;
    let (outcome, text) = attempt(
        &mut connection,
        "EVAL \"return redis.call('get','demo:bob:1')\" 0",
    )
    .await;
    assert_eq!(outcome, Permitted, "{text}");
    Ok(())
}

#[tokio::test]
async fn every_command_of_this_server_refuses_keys_of_others_or_was_looked_at() -> Result<()> {
    let redis = Redis::start().await?;
    let server = standalone(&redis)?;
    let mut admin = redis.connect().await?;
    let table = commands(&mut admin).await?;
    let mut tried = 0;
    let mut unseen = BTreeSet::new();
    for profile in Profile::ALL {
        let alice = subject("alice", profile);
        server.set_login(&alice, 1, &verifier("alice")).await?;
        let user = alice.names.login(Slot::A);
        for command in &table {
            let mut verdicts = Vec::new();
            for arguments in command.variants() {
                let mut dryrun = redis::cmd("ACL");
                dryrun.arg("DRYRUN").arg(&user);
                dryrun
                    .arg(command.name.split('|').collect::<Vec<_>>())
                    .arg(arguments);
                let answer: Result<String, RedisError> = dryrun.query_async(&mut admin).await;
                verdicts.extend(answer.ok().map(|text| text == "OK"));
            }
            tried += 1;
            let is_refused = verdicts.contains(&false);
            if !is_refused && !LOOKED_AT.contains(&command.name.as_str()) {
                unseen.insert(format!("{:?}", command.name));
            }
        }
    }
    println!("{tried} commands were tried");
    assert!(tried > 600, "{tried}");
    let unseen: Vec<_> = unseen.into_iter().collect();
    assert!(
        unseen.is_empty(),
        "look at each, then list or refuse it: {}",
        unseen.join(", ")
    );
    Ok(())
}

struct Command {
    name: String,
    arity: i64,
    has_number_of_keys: bool,
}

impl Command {
    /// The shortest argument lists, all of keys of the other; with a number of keys at each place.
    fn variants(&self) -> Vec<Vec<&'static str>> {
        const KEY: &str = "demo:bob:1";
        let words = usize::try_from(self.arity.unsigned_abs()).unwrap_or_default();
        let count = words.saturating_sub(1 + self.name.matches('|').count());
        let plain = vec![KEY; count];
        if !self.has_number_of_keys {
            return vec![plain];
        }
        let numbered = (0..=count).map(|place| {
            let mut list = plain.clone();
            list.resize(count.max(place + 2), KEY);
            list[place] = "1";
            list
        });
        numbered.collect()
    }
}

/// All commands of a server; of containers, what is in them.
async fn commands(admin: &mut MultiplexedConnection) -> Result<Vec<Command>> {
    let mut waiting: Vec<redis::Value> = run(admin, "COMMAND").await?;
    let mut all = Vec::new();
    while let Some(entry) = waiting.pop() {
        let redis::Value::Array(fields) = entry else {
            continue;
        };
        let name: String = redis::from_redis_value_ref(&fields[0])?;
        let flags: Vec<String> = redis::from_redis_value_ref(&fields[2])?;
        match fields.get(9) {
            Some(redis::Value::Array(inner)) if !inner.is_empty() => {
                waiting.extend(inner.iter().cloned());
            }
            _ => all.push(Command {
                name,
                arity: redis::from_redis_value_ref(&fields[1])?,
                has_number_of_keys: flags.iter().any(|flag| flag == "movablekeys"),
            }),
        }
    }
    Ok(all)
}
