//! stub
use std::sync::Arc;
use kardinal_cluster::Change;
use crate::driver::{self, Key, Next};
use crate::{Context, LocalForge};
pub(crate) struct Controller { context: Arc<Context>, local: LocalForge }
impl Controller {
    pub(crate) fn new(context: Arc<Context>, local: LocalForge) -> Controller { Controller { context, local } }
    pub(crate) fn concerned(&self, _: &str, _: &str) -> Vec<Key> { let _ = &self.local; Vec::new() }
}
impl driver::Controller for Controller {
    const KIND: &'static str = "Repository";
    fn context(&self) -> &Context { &self.context }
    fn route(&self, _: &Change) -> Vec<Key> { Vec::new() }
    async fn pass(&self, _: &Key) -> Next { Next::Never }
    fn forget(&self, _: &Key) {}
}
