//! Commands with arguments by chance: a server finds the keys of a command by one code and uses them by
//! another, and where these differ, rights are looked at for the wrong key.

use std::collections::BTreeMap;

use futures::future::join_all;
use leasehold_e2e::error::{Error, Result};
use leasehold_e2e::servers::Redis;
use leasehold_operator::backend::Slot;
use leasehold_operator::backend::redis::Profile;
use rand::rngs::StdRng;
use rand::seq::IndexedRandom as _;
use rand::{Rng as _, SeedableRng as _};
use redis::Value;
use redis::aio::MultiplexedConnection;

use crate::subject::{log_in, run, standalone, subject, verifier};

const SECRET: &str = "canary-of-bob";
const BATCH: usize = 200;

/// Valid commands on keys of alice: `@` stands for her prefix.
const TEMPLATES: &[&str] = &[
    "GEORADIUS @g 1 1 900 km STORE @x",
    "GEORADIUS @g 1 1 900 km WITHDIST COUNT 1",
    "GEORADIUSBYMEMBER @g m 900 km STOREDIST @x",
    "GEORADIUS_RO @g 1 1 900 km COUNT 1",
    "GEOSEARCH @g FROMLONLAT 1 1 BYRADIUS 900 km COUNT 1",
    "GEOSEARCHSTORE @x @g FROMMEMBER m BYRADIUS 900 km STOREDIST",
    "XREAD COUNT 1 STREAMS @s 0",
    "XREADGROUP GROUP g c COUNT 1 NOACK STREAMS @s >",
    "XREADGROUP COUNT 1 NOACK GROUP g c STREAMS @s >",
    "XAUTOCLAIM @s g c 0 0 COUNT 1",
    "XADD @s NOMKSTREAM MAXLEN 9 * f m",
    "XRANGE @s - + COUNT 1",
    "PFMERGE @p @p",
    "PFCOUNT @p @p",
    "PFADD @p m",
    "ZUNIONSTORE @x 2 @z @z WEIGHTS 1 1 AGGREGATE SUM",
    "ZUNION 2 @z @z WITHSCORES",
    "ZINTERCARD 1 @z LIMIT 1",
    "ZRANGESTORE @x @z 0 9 REV LIMIT 0 1",
    "ZMPOP 1 @z MIN COUNT 1",
    "LMPOP 1 @l LEFT COUNT 1",
    "LMOVE @l @l LEFT RIGHT",
    "RPOPLPUSH @l @l",
    "LINSERT @l BEFORE m m",
    "LCS @1 @1 LEN",
    "LPOS @l m COUNT 1",
    "SMOVE @t @t m",
    "SINTERCARD 1 @t LIMIT 1",
    "SUNIONSTORE @x @t @t",
    "SDIFF @t @t",
    "BITOP AND @x @1 @1",
    "BITFIELD @1 GET u8 0 SET u8 0 1",
    "COPY @1 @x DB 0 REPLACE",
    "SET @1 m NX GET EX 9",
    "GETEX @1 EX 9",
    "MGET @1 @1",
    "MSET @1 m @x m",
    "MSETNX @1 m @x m",
    "RENAMENX @1 @x",
    "DEL @x @1",
    "UNLINK @x @1",
    "TOUCH @x @1",
    "EXISTS @x @1",
    "OBJECT ENCODING @1",
    "MEMORY USAGE @1 SAMPLES 1",
    "DUMP @1",
    "EXPIRE @1 9 NX",
    "HSET @h f m",
    "HRANDFIELD @h 1 WITHVALUES",
    "SSCAN @t 0 MATCH m COUNT 9",
    "SORT @l BY @1 GET @1 LIMIT 0 1 STORE @x",
    "SORT_RO @l BY @1 GET @1 LIMIT 0 1",
    "MIGRATE 127.0.0.1 1 @1 0 1 COPY KEYS @1",
    "RESTORE @x 0 m REPLACE",
    "FCALL peek 1 @1 @1",
    "FCALL_RO peek 1 @1 @1",
    "EVALSHA_RO 0 1 @1 @1",
    "MOVE @1 1",
    "WATCH @1 @1",
    "PUBLISH @c m",
];

const WORDS: &[&str] = &[
    "STORE",
    "STOREDIST",
    "STREAMS",
    "GROUP",
    "COUNT",
    "NOACK",
    "BY",
    "GET",
    "LIMIT",
    "WEIGHTS",
    "AGGREGATE",
    "KEYS",
    "DB",
    "REPLACE",
    "COPY",
    "MATCH",
    "LEFT",
    "FROMMEMBER",
    "BYRADIUS",
    "km",
    "0",
    "1",
    "2",
    "3",
    "-1",
    ">",
    "$",
    "*",
    "m",
    "g",
    "c",
    "f",
    "@",
    "",
];

const KINDS: &[&str] = &["1", "l", "t", "z", "g", "h", "s", "p", "x", "new"];

/// A valid command with one to four things wrong in it.
fn mutated(random: &mut StdRng) -> Vec<String> {
    let template = TEMPLATES.choose(random).copied().unwrap_or_default();
    let mut words: Vec<String> = template.split(' ').map(str::to_owned).collect();
    for _ in 0..random.random_range(1..5) {
        let kind = KINDS.choose(random).copied().unwrap_or_default();
        let word = match random.random_range(0..10) {
            0..5 => format!("demo:bob:{kind}"),
            5..7 => format!("@{kind}"),
            _ => WORDS.choose(random).copied().unwrap_or_default().to_owned(),
        };
        let place = random.random_range(1..=words.len());
        match random.random_range(0..6) {
            0 | 1 if place < words.len() => words[place] = word,
            2 if place < words.len() && words.len() > 2 => drop(words.remove(place)),
            3 if place < words.len() => {
                // Once more: which of two the server takes is the question.
                let from = random.random_range(place..words.len());
                let again: Vec<String> = words[place..=from].to_vec();
                words.extend(again);
                if let Some(last) = words.last_mut() {
                    *last = word;
                }
            }
            _ => words.insert(place, word),
        }
    }
    let named = words.into_iter().map(|word| match word.strip_prefix('@') {
        Some(kind) => format!("demo:alice:{kind}"),
        None => word,
    });
    named.collect()
}

/// All kinds of keys under a prefix, with a text in each value.
async fn fill(admin: &mut MultiplexedConnection, prefix: &str, text: &str) -> Result<()> {
    let all: Vec<String> = KINDS.iter().map(|kind| format!("{prefix}{kind}")).collect();
    let () = redis::cmd("DEL").arg(&all).query_async(admin).await?;
    for line in [
        "SET @1 #",
        "RPUSH @l m #",
        "SADD @t m #",
        "ZADD @z 1 m 2 #",
        "GEOADD @g 1 1 m 1 1 #",
        "HSET @h f #",
        "XADD @s 1-1 f #",
        "XGROUP CREATE @s g 0",
        "XGROUP CREATE @s STREAMS 0",
        "XGROUP CREATE @s c 0",
        "PFADD @p m #",
    ] {
        let line = line.replace('@', prefix).replace('#', text);
        let () = run(admin, &line).await?;
    }
    Ok(())
}

/// Everything that bob has.
async fn state(admin: &mut MultiplexedConnection) -> Result<BTreeMap<String, Vec<u8>>> {
    let mut keys: Vec<String> = run(admin, "KEYS *").await?;
    keys.retain(|key| !key.starts_with("demo:alice:"));
    let mut all = BTreeMap::new();
    for key in keys {
        let dump: Option<Vec<u8>> = redis::cmd("DUMP").arg(&key).query_async(admin).await?;
        all.insert(key, dump.unwrap_or_default());
    }
    Ok(all)
}

fn tells(value: &Value) -> bool {
    let secret = SECRET.as_bytes();
    match value {
        Value::BulkString(bytes) => bytes.windows(secret.len()).any(|part| part == secret),
        Value::SimpleString(text) => text.contains(SECRET),
        Value::Array(all) => all.iter().any(tells),
        _ => false,
    }
}

/// Commands of alice that crossed to bob; also how many were answered.
async fn crossings(
    redis: &Redis,
    more: &str,
    batches: usize,
    seed: u64,
) -> Result<(Vec<String>, usize)> {
    let server = standalone(redis)?;
    let mut admin = redis.connect().await?;
    let alice = subject("alice", Profile::Default);
    server.set_login(&alice, 1, &verifier("alice")).await?;
    if !more.is_empty() {
        let user = alice.names.login(Slot::A);
        let () = run(&mut admin, &format!("ACL SETUSER {user} {more}")).await?;
    }
    let connection = log_in(redis, &alice, Slot::A, "alice").await?;
    let mut random = StdRng::seed_from_u64(seed);
    let (mut found, mut answered) = (Vec::new(), 0);
    fill(&mut admin, "demo:bob:", SECRET).await?;
    let mut before = state(&mut admin).await?;
    for _ in 0..batches {
        fill(&mut admin, "demo:alice:", "of-alice").await?;
        let commands: Vec<Vec<String>> = (0..BATCH).map(|_| mutated(&mut random)).collect();
        let asked = commands.iter().map(|words| {
            let mut connection = connection.clone();
            async move {
                let mut command = redis::cmd(&words[0]);
                command.arg(&words[1..]);
                command.query_async::<Value>(&mut connection).await
            }
        });
        let answers = join_all(asked).await;
        let mut accepted = Vec::new();
        for (words, answer) in commands.iter().zip(answers) {
            match answer {
                Ok(value) if tells(&value) => found.push(format!("read: {}", words.join(" "))),
                Ok(_) => accepted.push(words.join(" ")),
                Err(error) if error.is_io_error() => return Err(error.into()),
                Err(_) => {}
            }
        }
        answered += accepted.len();
        let after = state(&mut admin).await?;
        if after != before {
            let near = accepted
                .iter()
                .filter(|line| line.contains("demo:bob:") || line.contains("STORE"));
            found.extend(near.map(|line| format!("changed by one of: {line}")));
            let () = run(&mut admin, "FLUSHALL").await?;
            fill(&mut admin, "demo:bob:", SECRET).await?;
            before = state(&mut admin).await?;
        }
    }
    Ok((found, answered))
}

#[tokio::test]
async fn arguments_by_chance_never_reach_keys_of_another() -> Result<()> {
    let redis = Redis::start().await?;
    let mut admin = redis.connect().await?;
    let library = "#!lua name=lib\nredis.register_function{function_name='peek', callback=function(keys, \
                   args) return redis.call('get', args[1] or keys[1]) end, flags={'no-writes'}}";
    let _: String = redis::cmd("FUNCTION")
        .arg("LOAD")
        .arg(library)
        .query_async(&mut admin)
        .await?;
    let seed = match std::env::var("REDIS_FUZZ_SEED") {
        Ok(text) => text.parse()?,
        Err(_) => rand::random(),
    };
    println!("REDIS_FUZZ_SEED={seed}");
    let batches = match std::env::var("REDIS_FUZZ_BATCHES") {
        Ok(text) => text.parse()?,
        Err(_) => 100,
    };
    let (found, answered) = crossings(&redis, "", batches, seed).await?;
    println!("{answered} of {} commands were answered", batches * BATCH);
    if !found.is_empty() {
        return Err(Error::new(format!(
            "REDIS_FUZZ_SEED={seed}: {}",
            found.join("\n")
        )));
    }
    assert!(
        answered > batches * BATCH / 50,
        "{answered}: too few did anything"
    );
    // The positive control: with a rule more it is found.
    let (found, _) = crossings(&redis, "%R~demo:bob:*", 20, seed).await?;
    assert!(found.iter().any(|line| line.starts_with("read: ")));
    // And servers before their repair let through what the three rules refuse.
    let info: String = run(&mut admin, "INFO server").await?;
    if info.contains("redis_version:7.0.15") {
        let user = subject("alice", Profile::Default).names.login(Slot::A);
        let rules = "resetkeys ~demo:alice:* +pfmerge +georadius +georadiusbymember";
        let () = run(&mut admin, &format!("ACL SETUSER {user} {rules}")).await?;
        let alice = subject("alice", Profile::Default);
        let mut connection = log_in(&redis, &alice, Slot::A, "alice").await?;
        fill(&mut admin, "demo:alice:", "of-alice").await?;
        for line in [
            "PFMERGE demo:bob:new",
            "GEORADIUS demo:alice:g 1 1 900 km STORE demo:alice:x STORE demo:bob:new",
            "GEORADIUSBYMEMBER demo:alice:g m 900 km STORE demo:alice:x STORE demo:bob:new",
        ] {
            let before = state(&mut admin).await?;
            let () = run(&mut connection, line).await?;
            assert_ne!(state(&mut admin).await?, before, "{line}");
            let () = run(&mut admin, "DEL demo:bob:new").await?;
        }
    }
    Ok(())
}
