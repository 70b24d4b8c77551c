//! What one tenant tries against another, and what becomes of it under each profile.

use Outcome::{Permitted, Refused};

/// What became of an attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// The user may not.
    Refused,
    /// It may: an answer, or an error that is not about rights.
    Permitted,
}

/// Whether `Default`, `ReadOnly` and `Strict` permit it, and why that is fine where they do.
pub(crate) type Attempt = (&'static str, [Outcome; 3]);

const NEVER: [Outcome; 3] = [Refused; 3];
pub(crate) const LEAK: [Outcome; 3] = [Permitted, Permitted, Refused];
const HARMLESS: [Outcome; 3] = [Permitted; 3];

pub(crate) const KEYS: &[Attempt] = &[
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

pub(crate) const CHANNELS: &[Attempt] = &[
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

pub(crate) const SERVER: &[Attempt] = &[
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

/// Commands that some profile may run and that name no key of the form that the sweep tries: each was
/// looked at, in the tables above or for what it tells.
#[rustfmt::skip] // a list of names
pub(crate) const LOOKED_AT: &[&str] = &[
    // Since 7.2, and of Valkey.
    "client|capa", "client|import-source", "client|no-touch", "client|setinfo", "cluster|myshardid",
    "cluster|slot-stats", "commandlog|help", "script|show", "waitaof",
    // Since 7.0.
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
