//! What each kind of answer means, down to the words a person reads.

use std::sync::atomic::{AtomicU64, Ordering};

use http::Response;
use kube::client::Body;
use serde_json::json;

use super::*;

#[derive(Default)]
struct CountRedials(AtomicU64);

impl Dialer for CountRedials {
    fn generation(&self) -> u64 {
        self.0.load(Ordering::SeqCst)
    }
    fn redial_if(&self, generation: u64) {
        let _ = self.0.compare_exchange(
            generation,
            generation + 1,
            Ordering::SeqCst,
            Ordering::SeqCst,
        );
    }
}

const LIMIT: Duration = Duration::from_secs(2);

/// An API server that gives one answer to everything.
fn server(status: u16, headers: &[(&str, &str)], body: Vec<u8>) -> (Requests, Arc<CountRedials>) {
    let headers: Vec<(String, String)> = headers
        .iter()
        .map(|(n, v)| ((*n).to_owned(), (*v).to_owned()))
        .collect();
    let service = tower::service_fn(move |_: Request<Body>| {
        let (headers, body) = (headers.clone(), body.clone());
        async move {
            let mut response = Response::builder().status(status);
            for (name, value) in headers {
                response = response.header(name, value);
            }
            response
                .body(Body::from(body))
                .map_err(tower::BoxError::from)
        }
    });
    requests(kube::Client::new(service, "shop"))
}

fn requests(client: kube::Client) -> (Requests, Arc<CountRedials>) {
    let redials = Arc::new(CountRedials::default());
    let dialer = Arc::clone(&redials) as Arc<dyn Dialer>;
    (Requests::new(client, dialer, "shop".to_owned()), redials)
}

fn status_body(code: u16, message: &str, kind: &str) -> Vec<u8> {
    json!({"kind": "Status", "code": code, "message": message, "reason": "x",
           "details": {"kind": kind, "retryAfterSeconds": 3}})
    .to_string()
    .into_bytes()
}

async fn refused(status: u16, message: &str, kind: &str) -> StoreError {
    let (requests, _) = server(status, &[], status_body(status, message, kind));
    match requests.replace("orders.leader", &json!({}), LIMIT).await {
        Err(error) => error,
        Ok(_) => panic!("not refused"),
    }
}

#[tokio::test]
async fn a_missing_right_is_said_with_verb_namespace_and_account() {
    let message = "leases.coordination.k8s.io \"orders.leader\" is forbidden: User \
                   \"system:serviceaccount:shop:orders\" cannot update resource \"leases\"";
    let error = refused(403, message, "leases").await;
    let StoreError::Denied {
        verb: "update",
        account: Some(account),
        ..
    } = &error
    else {
        panic!("{error:?}")
    };
    assert_eq!(account, "system:serviceaccount:shop:orders");
    assert!(
        error
            .to_string()
            .contains("kind: ServiceAccount, name: orders, namespace: shop")
    );
    assert!(!error.is_outcome_unknown());
}

#[tokio::test]
async fn a_namespace_that_is_gone_or_going_is_said_so() {
    let gone = refused(404, "namespaces \"shop\" not found", "namespaces").await;
    assert!(matches!(gone, StoreError::NamespaceGone { .. }), "{gone:?}");
    let message = "leases \"x\" is forbidden: unable to create new content in namespace shop \
                   because it is being terminated";
    let going = refused(403, message, "leases").await;
    assert!(
        matches!(going, StoreError::NamespaceGone { .. }),
        "{going:?}"
    );
}

#[tokio::test]
async fn refusals_are_no_unknown_outcomes_and_server_errors_are() {
    for (status, unknown) in [
        (401, false),
        (403, false),
        (413, false),
        (422, false),
        (429, false),
        (500, true),
        (503, true),
        (504, true),
    ] {
        let error = refused(status, "no", "leases").await;
        assert_eq!(error.is_outcome_unknown(), unknown, "{status}: {error:?}");
    }
}

#[tokio::test]
async fn conflicts_and_gone_leases_are_conflicts() {
    for status in [409, 404] {
        let (requests, _) = server(status, &[], status_body(status, "no", "leases"));
        let answer = requests.replace("orders.leader", &json!({}), LIMIT).await;
        assert!(matches!(answer, Ok(PutAnswer::Conflict)), "{status}");
    }
}

#[tokio::test]
async fn the_servers_wish_to_wait_is_read_from_header_and_body() {
    let (throttled, _) = server(429, &[("Retry-After", "7")], b"Too many requests".to_vec());
    let error = throttled.get("x", LIMIT).await.unwrap_err();
    assert_eq!(error.retry_after(), Some(Duration::from_secs(7)));
    assert_eq!(
        refused(503, "busy", "leases").await.retry_after(),
        Some(Duration::from_secs(3))
    );
    let (absurd, _) = server(
        429,
        &[("Retry-After", "99999999999999999999999")],
        Vec::new(),
    );
    assert_eq!(
        absurd.get("x", LIMIT).await.unwrap_err().retry_after(),
        None
    );
}

#[tokio::test]
async fn a_success_that_is_no_json_leaves_the_outcome_unknown() {
    let (requests, _) = server(200, &[], b"<html>proxy</html>".to_vec());
    let Err(error) = requests.create(&json!({}), LIMIT).await else {
        panic!("accepted")
    };
    assert!(error.is_outcome_unknown(), "{error:?}");
}

#[tokio::test]
async fn an_absent_lease_is_no_error() {
    let (requests, _) = server(404, &[], status_body(404, "not found", "leases"));
    assert_eq!(requests.get("x", LIMIT).await, Ok(None));
}

#[tokio::test(start_paused = true)]
async fn a_server_that_does_not_answer_is_given_up_in_time_and_dialled_anew_once() {
    let service = tower::service_fn(|_: Request<Body>| async {
        std::future::pending::<Result<Response<Body>, tower::BoxError>>().await
    });
    let (requests, redials) = requests(kube::Client::new(service, "shop"));
    let started = tokio::time::Instant::now();
    let (a, b) = tokio::join!(requests.get("a", LIMIT), requests.get("b", LIMIT));
    assert_eq!(started.elapsed(), LIMIT);
    for answer in [a, b] {
        assert_eq!(
            answer,
            Err(StoreError::TimedOut {
                verb: "get",
                limit: LIMIT
            })
        );
    }
    assert_eq!(
        redials.generation(),
        1,
        "two requests that fail together redial once"
    );
}

#[tokio::test(start_paused = true)]
async fn a_burst_waits_for_its_turn_and_what_was_never_sent_is_no_unknown_outcome() {
    let service = tower::service_fn(|_: Request<Body>| async {
        std::future::pending::<Result<Response<Body>, tower::BoxError>>().await
    });
    let (requests, _) = requests(kube::Client::new(service, "shop"));
    let requests = Arc::new(requests);
    let mut burst = tokio::task::JoinSet::new();
    for _ in 0..=SLOTS {
        let requests = Arc::clone(&requests);
        burst.spawn(async move { requests.get("a", LIMIT).await });
    }
    let answers = burst.join_all().await;
    let unsent = answers
        .iter()
        .filter(|answer| matches!(answer, Err(StoreError::Throttled { .. })));
    assert!(unsent.count() <= 1);
    let timed_out = answers
        .iter()
        .filter(|answer| matches!(answer, Err(StoreError::TimedOut { .. })));
    assert!(timed_out.count() >= SLOTS);
}
