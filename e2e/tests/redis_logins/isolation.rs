//! As one tenant, everything that reaches another or tells of it: refused, or a leak that the docs name
//! together with the profile that closes it.

use std::collections::BTreeSet;

use leasehold_e2e::error::Result;
use leasehold_e2e::servers::Redis;
use leasehold_operator::backend::Slot;
use leasehold_operator::backend::redis::Profile;
use redis::RedisError;
use redis::aio::MultiplexedConnection;

use crate::subject::{log_in, run, standalone, subject, verifier};

/// What the other tenant keeps secret.
const SECRET: &str = "canary-of-bob";

/// What became of an attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Outcome {
    /// The user may not.
    Refused,
    /// It may: an answer, or an error that is not about rights.
    Permitted,
}

use Outcome::{Permitted, Refused};

/// Whether `Default`, `ReadOnly` and `Strict` permit it, and why that is fine where they do.
type Attempt = (&'static str, [Outcome; 3]);

const NEVER: [Outcome; 3] = [Refused; 3];
const LEAK: [Outcome; 3] = [Permitted, Permitted, Refused];
const HARMLESS: [Outcome; 3] = [Permitted; 3];

const KEYS: &[Attempt] = &[
    ("GET demo:bob:1", NEVER),
    ("GET demo:bo", NEVER),
    ("GET demo:alice", NEVER), // one letter short of the prefix
    ("SET demo:bob:1 x", NEVER),
    ("SET demo:alicex:1 x", NEVER),
    ("MGET demo:alice:1 demo:bob:1", NEVER),
    ("MSET demo:alice:1 x demo:bob:1 x", NEVER),
    ("DEL demo:bob:1", NEVER),
    ("UNLINK demo:bob:1", NEVER),
    ("EXISTS demo:bob:1", NEVER),
    ("TYPE demo:bob:1", NEVER),
    ("TTL demo:bob:1", NEVER),
    ("TOUCH demo:bob:1", NEVER),
    ("WATCH demo:bob:1", NEVER),
    ("DUMP demo:bob:1", NEVER),
    ("RESTORE demo:bob:1 0 x", NEVER),
    ("COPY demo:bob:1 demo:alice:2", NEVER),
    ("RENAME demo:bob:1 demo:alice:2", NEVER),
    ("MOVE demo:bob:1 1", NEVER),
    ("MIGRATE 127.0.0.1 1 demo:bob:1 0 1", NEVER),
    ("OBJECT ENCODING demo:bob:1", NEVER),
    ("OBJECT FREQ demo:bob:1", NEVER),
    ("MEMORY USAGE demo:bob:1", NEVER),
    ("DEBUG OBJECT demo:bob:1", NEVER),
    ("APPEND demo:bob:1 x", NEVER),
    ("GETDEL demo:bob:1", NEVER),
    ("XREAD STREAMS demo:bob:s 0", NEVER),
    ("BLPOP demo:bob:l 0", NEVER),
    ("LMPOP 1 demo:bob:l LEFT", NEVER),
    ("SINTER demo:alice:1 demo:bob:1", NEVER),
    ("ZUNIONSTORE demo:alice:z 1 demo:bob:z", NEVER),
    ("ZUNION 1 demo:bob:z", NEVER),
    ("BITOP AND demo:alice:b demo:bob:1", NEVER),
    ("PFCOUNT demo:bob:1", NEVER),
    ("PFMERGE demo:bob:new", NEVER), // 7.0 finds no key in it
    (
        "GEORADIUS demo:alice:g 1 1 9 km STORE demo:alice:x STORE demo:bob:new",
        NEVER,
    ),
    (
        "GEORADIUSBYMEMBER demo:alice:g x 9 km STORE demo:alice:x STORE demo:bob:new",
        NEVER,
    ),
    ("XREADGROUP GROUP g c STREAMS demo:bob:s >", NEVER),
    (
        "XREADGROUP COUNT 1 GROUP STREAMS demo:alice:c STREAMS demo:bob:s >",
        NEVER,
    ),
    ("SORT demo:alice:l BY nosort GET demo:bob:*", NEVER),
    ("SORT_RO demo:alice:l BY nosort GET demo:bob:*", NEVER),
    (
        "GEOSEARCHSTORE demo:bob:g demo:alice:g FROMMEMBER x BYRADIUS 1 m",
        NEVER,
    ),
    ("EVAL \"return redis.call('get','demo:bob:1')\" 0", NEVER),
    (
        "EVAL \"return redis.call('get',KEYS[1])\" 1 demo:bob:1",
        NEVER,
    ),
    (
        "EVAL \"return redis.call('set','demo:bob:1','x')\" 0",
        NEVER,
    ),
    ("EVAL \"return redis.call('keys','*')\" 0", NEVER),
    ("EVAL \"return redis.call('flushall')\" 0", NEVER),
    ("EVAL_RO \"return redis.call('get','demo:bob:1')\" 0", NEVER),
    ("FCALL peek 0 demo:bob:1", NEVER),
    ("FCALL peek 1 demo:bob:1", NEVER),
    ("GET demo:alice:1", HARMLESS),
    ("SET demo:alice:1 x", [Permitted, Refused, Permitted]),
    (
        "EVAL \"return redis.call('set',KEYS[1],'x')\" 1 demo:alice:1",
        [Permitted, Refused, Permitted],
    ),
];

const CHANNELS: &[Attempt] = &[
    ("PUBLISH demo:bob:c x", NEVER),
    ("SPUBLISH demo:bob:c x", NEVER),
    ("SUBSCRIBE demo:bob:c", NEVER),
    ("SSUBSCRIBE demo:bob:c", NEVER),
    ("PSUBSCRIBE *", NEVER),
    ("PSUBSCRIBE demo:*", NEVER),
    ("SUBSCRIBE __keyspace@0__:demo:bob:1", NEVER),
    ("PSUBSCRIBE __key*__:*", NEVER),
    ("PUBSUB CHANNELS", NEVER),
    ("PUBSUB SHARDCHANNELS", NEVER),
    ("PUBSUB NUMSUB demo:bob:c", LEAK),
    ("PUBSUB NUMPAT", LEAK),
    (
        "EVAL \"return redis.call('publish','demo:bob:c','x')\" 0",
        NEVER,
    ),
    ("PUBLISH demo:alice:c x", [Permitted, Refused, Permitted]),
];

const SERVER: &[Attempt] = &[
    ("SCAN 0 COUNT 1000", LEAK),
    ("DBSIZE", LEAK),
    ("INFO", LEAK),
    ("CLIENT TRACKING ON BCAST", LEAK),
    ("KEYS *", NEVER),
    ("RANDOMKEY", NEVER),
    ("FLUSHALL", NEVER),
    ("FLUSHDB", NEVER),
    ("SWAPDB 0 1", NEVER),
    ("SELECT 1", HARMLESS), // the same prefix holds in each database
    ("FUNCTION LIST", NEVER),
    ("FUNCTION FLUSH", NEVER),
    ("FUNCTION LOAD x", NEVER),
    ("FUNCTION DUMP", NEVER),
    ("FUNCTION STATS", NEVER),
    ("FUNCTION KILL", NEVER),
    ("FUNCTION DELETE lib", NEVER),
    ("SCRIPT FLUSH", NEVER),
    ("SCRIPT KILL", NEVER),
    ("SCRIPT DEBUG YES", NEVER),
    ("SCRIPT LOAD \"return 1\"", HARMLESS),
    (
        "SCRIPT EXISTS e0e1f9fabfc9d4800c877a703b823ac0578ff8db",
        HARMLESS,
    ),
    ("CONFIG GET *", NEVER),
    ("CONFIG SET maxmemory 1", NEVER),
    ("CONFIG REWRITE", NEVER),
    ("CONFIG RESETSTAT", NEVER),
    ("ACL LIST", NEVER),
    ("ACL USERS", NEVER),
    ("ACL GETUSER default", NEVER),
    ("ACL SETUSER default on nopass", NEVER),
    ("ACL DELUSER default", NEVER),
    ("ACL DRYRUN default GET x", NEVER),
    ("ACL LOG", NEVER),
    ("ACL SAVE", NEVER),
    ("ACL LOAD", NEVER),
    ("ACL WHOAMI", HARMLESS),
    ("ACL CAT", HARMLESS),
    ("ACL GENPASS", HARMLESS),
    ("CLIENT LIST", NEVER),
    ("CLIENT KILL TYPE normal", NEVER),
    ("CLIENT PAUSE 1", NEVER),
    ("CLIENT UNPAUSE", NEVER),
    ("CLIENT UNBLOCK 1", NEVER),
    ("CLIENT NO-EVICT ON", NEVER),
    ("CLIENT INFO", HARMLESS),
    ("CLIENT SETNAME alice", HARMLESS),
    ("MONITOR", NEVER),
    ("MEMORY STATS", NEVER),
    ("MEMORY DOCTOR", NEVER),
    ("MEMORY MALLOC-STATS", NEVER),
    ("MEMORY PURGE", NEVER),
    ("LATENCY LATEST", NEVER),
    ("SLOWLOG GET", NEVER),
    ("MODULE LIST", NEVER),
    ("MODULE LOAD /tmp/x.so", NEVER),
    ("DEBUG SLEEP 0", NEVER),
    ("SHUTDOWN NOSAVE", NEVER),
    ("SAVE", NEVER),
    ("BGSAVE", NEVER),
    ("BGREWRITEAOF", NEVER),
    ("LASTSAVE", NEVER),
    ("REPLICAOF 127.0.0.1 1", NEVER),
    ("FAILOVER", NEVER),
    ("ROLE", NEVER),
    ("SYNC", NEVER),
    ("PSYNC ? -1", NEVER),
    ("REPLCONF capa eof", NEVER),
    ("CLUSTER GETKEYSINSLOT 0 10", NEVER),
    ("CLUSTER COUNTKEYSINSLOT 0", NEVER),
    ("CLUSTER RESET", NEVER),
    ("CLUSTER INFO", HARMLESS),
    ("COMMAND COUNT", HARMLESS),
    ("TIME", HARMLESS),
    ("WAIT 0 1", HARMLESS),
];

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

/// Commands that some profile may run and that name no key of the form that the sweep tries: each was
/// looked at, in the tables above or for what it tells.
#[rustfmt::skip] // a list of names
const LOOKED_AT: &[&str] = &[
    "acl|cat", "acl|genpass", "acl|help", "acl|whoami", "asking", "auth", "client|caching",
    "client|getname", "client|getredir", "client|help", "client|id", "client|info", "client|reply",
    "client|setname", "client|tracking", "client|trackinginfo", "cluster|help", "cluster|info",
    "cluster|keyslot", "cluster|links", "cluster|myid", "cluster|nodes", "cluster|shards",
    "cluster|slots", "command|count", "command|docs", "command|getkeys", "command|getkeysandflags",
    "command|help", "command|info", "command|list", "config|help", "dbsize", "discard", "echo",
    "exec", "hello", "info", "latency|help", "lolwut", "module|help", "multi", "object|help",
    "ping", "pubsub|help", "pubsub|numpat", "pubsub|numsub", "pubsub|shardnumsub", "punsubscribe",
    "quit", "readonly", "readwrite", "reset", "scan", "script|exists", "script|help", "script|load",
    "select", "slowlog|help", "sunsubscribe", "time", "unsubscribe", "unwatch", "wait",
    "xgroup|help", "xinfo|help", "xread", "xreadgroup",
];

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
