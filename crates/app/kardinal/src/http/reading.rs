//! Bodies, read within a bound.

use axum::body::{Body, Bytes, HttpBody as _, to_bytes};
use futures::StreamExt as _;
use http_body_util::LengthLimitError;

/// Why there is no body.
pub(super) enum Unread {
    TooLarge,
    Broken,
}

/// What is let pass of a body that is too large, so that the client reads the answer instead of a broken connection.
const LET_PASS: u64 = 16 * 1024 * 1024;

/// Reads a body of at most `limit` bytes; nothing is kept of one that announces more.
pub(super) async fn whole(body: Body, limit: usize) -> Result<Bytes, Unread> {
    let announced = body.size_hint().lower();
    if announced > u64::try_from(limit).unwrap_or(u64::MAX) {
        if announced <= LET_PASS {
            let mut rest = body.into_data_stream();
            while let Some(Ok(_)) = rest.next().await {}
        }
        return Err(Unread::TooLarge);
    }
    to_bytes(body, limit).await.map_err(|error| match error.into_inner().is::<LengthLimitError>() {
        true => Unread::TooLarge,
        false => Unread::Broken,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_body_that_breaks_off_is_not_too_large_whatever_the_error_says() {
        let broken = futures::stream::iter([Err::<Bytes, _>(std::io::Error::other("length limit exceeded"))]);
        assert!(matches!(whole(Body::from_stream(broken), 4).await, Err(Unread::Broken)));
    }

    #[tokio::test]
    async fn a_body_is_read_up_to_the_limit_only() {
        assert!(matches!(whole(Body::from("12345"), 4).await, Err(Unread::TooLarge)));
        assert_eq!(whole(Body::from("1234"), 4).await.ok().unwrap(), "1234");
        // An endless stream: this test ends only because reading stops at the limit.
        let endless =
            futures::stream::repeat_with(|| Ok::<_, std::io::Error>(Bytes::from_static(&[0; 1024])));
        assert!(matches!(whole(Body::from_stream(endless), 1 << 20).await, Err(Unread::TooLarge)));
    }
}
