//! The requests: list pages and watches with the `shardSelector` of a shard, which kube's own
//! parameters do not have yet.

use std::fmt::{self, Write as _};
use std::future::Future;

use futures::stream::BoxStream;
use http::Request;
use kube::api::{ListParams, ObjectList, WatchParams};
use kube::core::WatchEvent;
use leasehold_core::partition::Shard;
use leasehold_core::time::Duration;
use serde::de::DeserializeOwned;

use super::is_ours;

/// The server closes a watch after this long.
pub(super) const SERVER_LIMIT: Duration = Duration::from_secs(290);
/// Longest wait for one page of a list, or for the head of a watch.
const REQUEST_LIMIT: Duration = Duration::from_secs(30);
/// Objects of one page, unless the caller says otherwise.
const PAGE: u32 = 500;

/// What is asked for, but for the shard.
pub(super) struct Slice<K> {
    api: kube::Api<K>,
    params: ListParams,
    /// The server refused a selector of ours: it is asked for everything.
    is_refused: bool,
}

/// A whole list.
pub(super) struct Listing<K> {
    /// What of it belongs to the shard.
    pub(super) objects: Vec<K>,
    /// Where to watch from.
    pub(super) revision: String,
    /// The server sent nothing else.
    pub(super) by_server: bool,
}

impl<K> Slice<K>
where
    K: kube::Resource + Clone + fmt::Debug + DeserializeOwned + Send + 'static,
{
    pub(super) fn new(api: kube::Api<K>, params: &ListParams) -> Self {
        let params = ListParams {
            label_selector: params.label_selector.clone(),
            field_selector: params.field_selector.clone(),
            limit: Some(params.limit.unwrap_or(PAGE)),
            ..ListParams::default()
        };
        Self {
            api,
            params,
            is_refused: false,
        }
    }

    /// All pages of a list.
    pub(super) async fn list(&mut self, shard: &Shard) -> kube::Result<Listing<K>> {
        let selector = self.selector(shard);
        match self.pages(shard, selector.as_deref()).await {
            // A server that reads selectors in another way: better everything than nothing.
            Err(kube::Error::Api(status)) if status.code == 400 && selector.is_some() => {
                tracing::warn!(error = %status, "the API server refuses the shard selector; it is asked for everything");
                self.is_refused = true;
                self.pages(shard, None).await
            }
            answer => answer,
        }
    }

    /// A watch from `revision` on.
    pub(super) async fn watch(
        &self,
        shard: &Shard,
        revision: &str,
    ) -> kube::Result<BoxStream<'static, kube::Result<WatchEvent<K>>>> {
        let params = WatchParams {
            label_selector: self.params.label_selector.clone(),
            field_selector: self.params.field_selector.clone(),
            timeout: u32::try_from(SERVER_LIMIT.as_secs()).ok(),
            ..WatchParams::default()
        };
        let request = kube::core::Request::new(self.api.resource_url());
        let request = request.watch(&params, revision);
        let request = request.map_err(kube::Error::BuildRequest)?;
        let request = selecting(request, self.selector(shard).as_deref())?;
        let client = self.api.clone().into_client();
        let events = limited(client.request_events::<K>(request)).await?;
        Ok(Box::pin(events))
    }

    fn selector(&self, shard: &Shard) -> Option<String> {
        // Without a hash that the server computes everything comes.
        let selector = shard.selector().ok().flatten();
        selector.filter(|_| !self.is_refused)
    }

    async fn pages(&self, shard: &Shard, selector: Option<&str>) -> kube::Result<Listing<K>> {
        let client = self.api.clone().into_client();
        let mut params = self.params.clone();
        let mut listing = Listing {
            objects: Vec::new(),
            revision: String::new(),
            by_server: true,
        };
        loop {
            let request = kube::core::Request::new(self.api.resource_url());
            let request = request.list(&params).map_err(kube::Error::BuildRequest)?;
            let request = selecting(request, selector)?;
            let page: ObjectList<K> = limited(client.request(request)).await?;
            let metadata = page.metadata;
            let echo = metadata.shard_info.as_ref();
            listing.by_server &= shard.is_echoed_by(echo.map(|it| it.selector.as_str()));
            let ours = page.items.into_iter().filter(|it| is_ours(shard, it));
            listing.objects.extend(ours);
            params.continue_token = metadata.continue_.filter(|token| !token.is_empty());
            if params.continue_token.is_none() {
                listing.revision = metadata.resource_version.unwrap_or_default();
                return Ok(listing);
            }
        }
    }
}

/// The request with this selector as a further parameter.
fn selecting(
    mut request: Request<Vec<u8>>,
    selector: Option<&str>,
) -> kube::Result<Request<Vec<u8>>> {
    let Some(selector) = selector else {
        return Ok(request);
    };
    let mut uri = format!("{}&shardSelector=", request.uri());
    for byte in selector.bytes() {
        if byte.is_ascii_alphanumeric() || byte == b'.' {
            uri.push(char::from(byte));
        } else {
            // Writing into a String cannot fail.
            let _ = write!(uri, "%{byte:02X}");
        }
    }
    *request.uri_mut() = uri
        .parse()
        .map_err(|error: http::uri::InvalidUri| kube::Error::HttpError(error.into()))?;
    Ok(request)
}

async fn limited<T>(answer: impl Future<Output = kube::Result<T>>) -> kube::Result<T> {
    let late = |_| kube::Error::Service(format!("no answer for {REQUEST_LIMIT:?}").into());
    tokio::time::timeout(REQUEST_LIMIT, answer)
        .await
        .map_err(late)?
}
