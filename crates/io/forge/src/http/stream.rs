//! Bodies in both directions, bounded in size and in time.

use std::io::{Error, ErrorKind};
use std::time::Duration;

use axum::extract::Request;
use bytes::{Bytes, BytesMut};
use futures::stream::BoxStream;
use futures::{Stream, StreamExt as _};
use http::{StatusCode, header};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::process::{Child, ChildStdin, ChildStdout};
use tokio::sync::OwnedSemaphorePermit;
use tokio::task::JoinHandle;
use tokio::time::{Instant, timeout, timeout_at};

use super::answer::Refusal;
use super::commands::too_much;
use super::gunzip::Gunzip;
use super::process::Service;
use super::{Settings, check_content_type};

/// A request body as git shall read it.
pub(super) type Input = BoxStream<'static, std::io::Result<Bytes>>;

/// How long a process may tidy up after its client has gone.
const GRACE: Duration = Duration::from_secs(5);
const CHUNK: usize = 64 * 1024;

/// The body of a request: unpacked, never larger than allowed, and never silent for too long.
pub(super) fn body(service: Service, settings: &Settings, request: Request) -> Result<Input, Refusal> {
    check_content_type(service, request.headers())?;
    let header = |name| request.headers().get(name).and_then(|value| value.to_str().ok());
    let length = header(header::CONTENT_LENGTH).and_then(|text| text.parse::<u64>().ok());
    if length.is_some_and(|length| length > settings.max_body) {
        return Err(too_much(too_large(settings.max_body)));
    }
    let packed = match header(header::CONTENT_ENCODING) {
        None | Some("identity") => false,
        Some("gzip" | "x-gzip") => true,
        Some(_) => {
            let message = "send the body plain or as `gzip`".to_owned();
            return Err(Refusal::Bad(StatusCode::UNSUPPORTED_MEDIA_TYPE, message));
        }
    };
    let plain = patient(request.into_body().into_data_stream(), settings.idle);
    let limit = settings.max_body;
    Ok(if packed { limited(unpacked(plain), limit) } else { limited(plain, limit) })
}

fn too_large(limit: u64) -> Error {
    Error::new(ErrorKind::FileTooLarge, format!("the request is larger than {limit} bytes"))
}

/// Gives up on a client that sends nothing for too long.
fn patient(body: axum::body::BodyDataStream, idle: Duration) -> Input {
    let step = move |mut body: axum::body::BodyDataStream| async move {
        let chunk = match timeout(idle, body.next()).await {
            Ok(None) => return None,
            Ok(Some(chunk)) => chunk.map_err(|error| Error::new(ErrorKind::ConnectionAborted, error)),
            Err(_) => Err(Error::new(ErrorKind::TimedOut, "the client sends nothing any more")),
        };
        Some((chunk, body))
    };
    futures::stream::unfold(body, step).boxed()
}

fn limited(body: Input, limit: u64) -> Input {
    body.scan(0_u64, move |seen, chunk| {
        let chunk = chunk.and_then(|chunk| {
            *seen = seen.saturating_add(chunk.len() as u64);
            if *seen > limit { Err(too_large(limit)) } else { Ok(chunk) }
        });
        std::future::ready(Some(chunk))
    })
    .boxed()
}

fn unpacked(body: Input) -> Input {
    let step = |(mut body, mut gunzip): (Input, Gunzip)| async move {
        loop {
            match gunzip.pull() {
                Ok(Some(chunk)) => return Some((Ok(chunk), (body, gunzip))),
                Err(error) => return Some((Err(error), (body, gunzip))),
                Ok(None) => {}
            }
            match body.next().await {
                Some(Ok(chunk)) => gunzip.push(chunk),
                Some(Err(error)) => return Some((Err(error), (body, gunzip))),
                None if gunzip.finished() => return None,
                None => {
                    let error = Error::new(ErrorKind::UnexpectedEof, "the compressed request breaks off");
                    return Some((Err(error), (body, gunzip)));
                }
            }
        }
    };
    // After an error nobody reads on.
    futures::stream::unfold((body, Gunzip::new()), step).boxed()
}

/// Reads a body to its end and forgets it.
pub(super) async fn drain(body: &mut Input) -> Result<(), Refusal> {
    while let Some(chunk) = body.next().await {
        chunk.map_err(too_much)?;
    }
    Ok(())
}

/// Hands a request to a process and gives what the process says. When the reader goes away, so does the process.
/// `finished` is called when the process has ended well.
pub(super) fn converse(
    service: Service,
    mut child: Child,
    beginning: Vec<u8>,
    body: Input,
    slot: OwnedSemaphorePermit,
    settings: &Settings,
    finished: impl FnOnce() + Send + 'static,
) -> impl Stream<Item = std::io::Result<Bytes>> + Send + 'static {
    let input = child.stdin.take().map(|stdin| tokio::spawn(feed(stdin, beginning, body)));
    let conversation = Conversation {
        service,
        output: child.stdout.take(),
        input,
        child: Some(child),
        deadline: Instant::now() + settings.total,
        finished: Some(finished),
        slot: Some(slot),
    };
    futures::stream::try_unfold(conversation, |mut conversation| async move {
        Ok(conversation.next().await?.map(|chunk| (chunk, conversation)))
    })
}

/// Writes a request to a process. A process that has heard enough does not end the request of the client.
/// After an error the input stays open, so that the process does not take it for a whole one.
async fn feed(mut stdin: ChildStdin, beginning: Vec<u8>, mut body: Input) -> Result<(), (Error, ChildStdin)> {
    let mut listening = stdin.write_all(&beginning).await.is_ok();
    while let Some(chunk) = body.next().await {
        match chunk {
            Ok(chunk) => listening = listening && stdin.write_all(&chunk).await.is_ok(),
            Err(error) => return Err((error, stdin)),
        }
    }
    Ok(())
}

/// A process and its client.
struct Conversation<F> {
    service: Service,
    child: Option<Child>,
    output: Option<ChildStdout>,
    input: Option<JoinHandle<Result<(), (Error, ChildStdin)>>>,
    deadline: Instant,
    finished: Option<F>,
    slot: Option<OwnedSemaphorePermit>,
}

impl<F: FnOnce() + Send> Conversation<F> {
    async fn next(&mut self) -> std::io::Result<Option<Bytes>> {
        let Some(output) = &mut self.output else { return Ok(None) };
        let mut buffer = BytesMut::with_capacity(CHUNK);
        loop {
            let late = || Error::new(ErrorKind::TimedOut, "the request takes too long");
            let read = tokio::select! {
                biased;
                fed = waiting(&mut self.input) => {
                    self.input = None;
                    fed?;
                    continue;
                }
                read = timeout_at(self.deadline, output.read_buf(&mut buffer)) => read.map_err(|_| late())??,
            };
            if read > 0 {
                return Ok(Some(buffer.freeze()));
            }
            self.end().await?;
            return Ok(None);
        }
    }

    async fn end(&mut self) -> std::io::Result<()> {
        let Some(child) = &mut self.child else { return Ok(()) };
        let status = timeout_at(self.deadline, child.wait()).await??;
        self.child = None;
        if let Some(finished) = self.finished.take().filter(|_| status.success()) {
            finished();
        }
        Ok(())
    }
}

/// What became of the input; never, when that is known already.
async fn waiting(input: &mut Option<JoinHandle<Result<(), (Error, ChildStdin)>>>) -> std::io::Result<()> {
    match input {
        None => std::future::pending().await,
        Some(input) => match input.await {
            Ok(fed) => fed.map_err(|(error, _)| error),
            Err(error) => Err(Error::other(error)),
        },
    }
}

/// The end of its input is the gentle end of a push: git removes what it has half written, as long as somebody listens
/// to its report. A fetch has nothing to remove and ends when nobody listens. What does not end soon is killed.
impl<F> Drop for Conversation<F> {
    fn drop(&mut self) {
        if let Some(input) = self.input.take() {
            input.abort();
        }
        let output = self.output.take().filter(|_| self.service == Service::ReceivePack);
        let slot = self.slot.take();
        let runtime = tokio::runtime::Handle::try_current();
        if let (Some(child), Ok(runtime)) = (self.child.take(), runtime) {
            runtime.spawn(async move {
                // Dropping the child kills it.
                let _ = timeout(GRACE, see_out(child, output)).await;
                drop(slot);
            });
        }
    }
}

async fn see_out(mut child: Child, output: Option<ChildStdout>) -> std::io::Result<()> {
    if let Some(mut output) = output {
        tokio::io::copy(&mut output, &mut tokio::io::sink()).await?;
    }
    child.wait().await?;
    Ok(())
}
