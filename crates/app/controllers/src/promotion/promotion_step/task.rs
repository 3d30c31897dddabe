//! Custom tasks: an HTTP call that says whether the promotion may go on.

use jiff::SignedDuration;
use kardinal_promotion::promotion_step::{Outcome, Retry, TaskCall};
use kardinal_reach::Refused;
use kardinal_vcs::Barrier;
use reqwest::header::HeaderValue;
use serde::Deserialize;

use crate::forges::Trouble;
use crate::promotion::context::PromotionContext;

/// The longest answer that is read.
const ANSWER_LIMIT: usize = 64 * 1024;

#[derive(Deserialize)]
struct Answer {
    success: bool,
    #[serde(default)]
    message: String,
}

/// Calls the task's URL. Redirects are not followed: the answer would come from somebody whom nobody named.
pub(super) async fn call(context: &PromotionContext, namespace: &str, call: &TaskCall) -> Outcome {
    let fault = |message: String| Outcome::Fault { message, retry: Retry::Soon };
    if let Err(refused) = context.reach.check_url(&call.url) {
        return Trouble::from(refused).into();
    }
    let mut request = context.http.post(&call.url).json(&call.body);
    if let Ok(timeout) = call.timeout.try_into() {
        request = request.timeout(timeout);
    }
    if let Some(secret) = &call.secret {
        let named = (secret.name.as_str(), secret.key.as_str());
        match context.credentials.value_for(context, namespace, named, &call.url).await {
            Ok(value) => match secret_header(value.reveal()) {
                Some(value) => request = request.header(&call.header, value),
                None => {
                    let message = format!(
                        "the Secret `{}` cannot be sent in a header: it holds control characters",
                        secret.name
                    );
                    return Outcome::Blocked { barrier: Barrier::NotLetIn, message };
                }
            },
            Err(trouble) => return trouble.into(),
        }
    }
    let response = match request.send().await {
        Ok(response) => response,
        Err(error) => {
            // The error without its URL, which may hold a secret.
            let error = error.without_url();
            return match Refused::within(&error) {
                Some(refused) => Trouble::from(refused.clone()).into(),
                None => fault(no_answer(&error)),
            };
        }
    };
    let status = response.status();
    if status == reqwest::StatusCode::TOO_MANY_REQUESTS {
        let asked = response.headers().get(reqwest::header::RETRY_AFTER);
        let asked = asked.and_then(|asked| asked.to_str().ok()?.trim().parse().ok());
        let retry = Retry::Limited(asked.map(SignedDuration::from_secs));
        return Outcome::Fault { message: format!("the task answered {status}"), retry };
    }
    if status.is_server_error() {
        return fault(format!("the task answered {status}"));
    }
    if !status.is_success() {
        return refused(call, format!("the task answered {status}"));
    }
    let body = match read(response).await {
        Ok(body) => body,
        Err(message) => return fault(message),
    };
    match serde_json::from_slice::<Answer>(&body) {
        Ok(answer) => Outcome::TaskAnswer { success: answer.success, message: answer.message },
        Err(_) => refused(call, "the task's answer is not `{\"success\": …, \"message\": …}`".to_owned()),
    }
}

/// The promotion ends with it, so nothing is waited for.
fn refused(call: &TaskCall, message: String) -> Outcome {
    Outcome::Refused { task: Some(call.index), barrier: Barrier::Other, message }
}

/// Says that no answer came, or not all of it, with the part of the error that helps.
fn no_answer(error: &dyn std::error::Error) -> String {
    let mut inner = error;
    while let Some(cause) = inner.source() {
        inner = cause;
    }
    format!("the task does not answer: {inner}")
}

/// `Bearer <value>`, kept out of what is logged.
fn secret_header(value: &str) -> Option<HeaderValue> {
    let mut header = HeaderValue::from_str(&format!("Bearer {value}")).ok()?;
    header.set_sensitive(true);
    Some(header)
}

async fn read(mut response: reqwest::Response) -> Result<Vec<u8>, String> {
    let mut body = Vec::new();
    while let Some(chunk) = response.chunk().await.map_err(|error| no_answer(&error.without_url()))? {
        if body.len().saturating_add(chunk.len()) > ANSWER_LIMIT {
            return Err(format!("the task's answer is longer than {ANSWER_LIMIT} bytes"));
        }
        body.extend_from_slice(&chunk);
    }
    Ok(body)
}
