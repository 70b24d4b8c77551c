//! Users of real Redis servers, as the operator makes, rotates, repairs and ends them. No control plane
//! is needed. `REDIS_BIN=` runs the same on another Redis or a Valkey.

#[path = "redis_logins/attempts.rs"]
mod attempts;
#[path = "redis_logins/errors.rs"]
mod errors;
#[path = "redis_logins/fuzz.rs"]
mod fuzz;
#[path = "redis_logins/isolation.rs"]
mod isolation;
#[path = "redis_logins/life.rs"]
mod life;
#[path = "redis_logins/nodes.rs"]
mod nodes;
#[path = "redis_logins/preflight.rs"]
mod preflight;
#[path = "redis_logins/subject.rs"]
mod subject;
