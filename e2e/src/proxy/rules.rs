//! What an http link does to requests: rules that are made and ended while
//! clients run.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use http::{Method, StatusCode, request};
use serde_json::Value;
use tokio::sync::watch;

/// Which requests a rule is about. [`When::any`] admits all.
#[derive(Clone, Debug, Default)]
pub struct When {
    methods: Vec<Method>,
    path: Option<String>,
    watches: Option<bool>,
    body: Option<String>,
}

impl When {
    /// Every request.
    pub fn any() -> Self {
        Self::default()
    }

    /// Requests that change something.
    pub fn writes() -> Self {
        Self {
            methods: vec![Method::POST, Method::PUT, Method::PATCH, Method::DELETE],
            ..Self::default()
        }
    }

    /// Only with this method.
    #[must_use]
    pub fn method(mut self, method: Method) -> Self {
        self.methods = vec![method];
        self
    }

    /// Only if path and query contain `text`.
    #[must_use]
    pub fn path(mut self, text: &str) -> Self {
        self.path = Some(text.to_owned());
        self
    }

    /// Only if the body contains `text`.
    #[must_use]
    pub fn body(mut self, text: &str) -> Self {
        self.body = Some(text.to_owned());
        self
    }

    /// Only watches.
    #[must_use]
    pub fn watches(mut self) -> Self {
        self.watches = Some(true);
        self
    }

    /// No watches.
    #[must_use]
    pub fn no_watches(mut self) -> Self {
        self.watches = Some(false);
        self
    }

    fn admits(&self, parts: &request::Parts, body: &[u8]) -> bool {
        let uri = parts.uri.to_string();
        let body_holds = |text: &String| String::from_utf8_lossy(body).contains(text);
        (self.methods.is_empty() || self.methods.contains(&parts.method))
            && self.path.as_ref().is_none_or(|text| uri.contains(text))
            && self.watches.is_none_or(|wanted| wanted == is_watch(parts))
            && self.body.as_ref().is_none_or(body_holds)
    }
}

pub(super) fn is_watch(parts: &request::Parts) -> bool {
    let query = parts.uri.query().unwrap_or_default();
    query
        .split('&')
        .any(|pair| matches!(pair, "watch=true" | "watch=1" | "watch"))
}

/// What is done to a request.
#[derive(Clone)]
pub enum Action {
    /// Not forwarded: answered with this status, and with `Retry-After` if given.
    Refuse(StatusCode, Option<Duration>),
    /// Forwarded after this time.
    Delay(Duration),
    /// Forwarded when the rule ends, whether the client still waits or not.
    Hold,
    /// Never forwarded and never answered; the connection stays open.
    Swallow,
    /// Carried out, but the connection ends in place of the answer.
    LoseAnswer,
    /// Carried out, and answered after this time.
    DelayAnswer(Duration),
    /// Carried out; every Lease in the answer, also in watch events, is changed.
    Rewrite(Rewrite),
}

/// A change of a Lease on its way to the client.
pub type Rewrite = Arc<dyn Fn(&mut Value) + Send + Sync>;

/// A rule in force. It goes on when this is dropped; [`RuleHandle::end`] ends it.
pub struct RuleHandle {
    rule: Arc<Rule>,
}

impl RuleHandle {
    /// Ends the rule, and with it every [`Action::Hold`] of it.
    pub fn end(&self) {
        self.rule.ended.send_replace(true);
    }

    /// How many requests it was applied to.
    pub fn matched(&self) -> usize {
        self.rule.matched.load(Ordering::SeqCst)
    }
}

pub(super) struct Rule {
    when: When,
    pub(super) action: Action,
    matched: AtomicUsize,
    ended: watch::Sender<bool>,
}

impl Rule {
    /// Returns when the rule has ended.
    pub(super) async fn until_ended(&self) {
        // The sender lives as long as the rule, so this cannot fail.
        let _ = self.ended.subscribe().wait_for(|ended| *ended).await;
    }
}

/// The rules of one link, in the order in which they were made.
#[derive(Default)]
pub(super) struct Rules {
    rules: Mutex<Vec<Arc<Rule>>>,
}

impl Rules {
    pub(super) fn add(&self, when: When, action: Action) -> RuleHandle {
        let rule = Arc::new(Rule {
            when,
            action,
            matched: AtomicUsize::new(0),
            ended: watch::Sender::new(false),
        });
        let mut rules = self.rules.lock().unwrap_or_else(PoisonError::into_inner);
        rules.retain(|rule| !*rule.ended.borrow());
        rules.push(Arc::clone(&rule));
        RuleHandle { rule }
    }

    /// The rules in force for this request; each counts it.
    pub(super) fn matching(&self, parts: &request::Parts, body: &[u8]) -> Vec<Arc<Rule>> {
        let rules = self.rules.lock().unwrap_or_else(PoisonError::into_inner);
        let matching = rules
            .iter()
            .filter(|rule| !*rule.ended.borrow() && rule.when.admits(parts, body));
        matching
            .inspect(|rule| {
                rule.matched.fetch_add(1, Ordering::SeqCst);
            })
            .cloned()
            .collect()
    }

    /// The changes in force for events of a watch.
    pub(super) fn rewrites(&self, parts: &request::Parts) -> Vec<Rewrite> {
        let rules = self.matching(parts, &[]);
        let rewrites = rules.iter().filter_map(|rule| match &rule.action {
            Action::Rewrite(rewrite) => Some(Arc::clone(rewrite)),
            _ => None,
        });
        rewrites.collect()
    }
}
