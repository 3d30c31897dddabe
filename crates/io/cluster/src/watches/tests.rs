use kardinal_apiserver::{Options, Server};

use super::*;

fn maps() -> Gvk {
    Gvk::parse("v1", "ConfigMap").unwrap()
}

fn store(change: impl FnOnce(&mut Store)) -> Option<Arc<Store>> {
    let mut store = Store::new(maps());
    change(&mut store);
    Some(Arc::new(store))
}

#[test]
fn what_is_known_of_a_kind_is_one_of_four() {
    let listed = |store: &mut Store| drop(store.replace(KindScope::Namespaced, Vec::new(), 1));
    let cases = [
        (None, Knowledge::Unknown, "FFF"),
        (store(|_| {}), Knowledge::Unknown, "FFF"),
        (store(|store| assert!(store.mark_attempted())), Knowledge::Failed, "TFF"),
        (store(|store| drop(store.clear())), Knowledge::NotServed, "TFT"),
        (store(listed), Knowledge::Listed, "TTT"),
    ];
    for (store, known, answers) in cases {
        let view = View { stores: BTreeMap::from([(maps(), store)]) };
        assert_eq!(view.knowledge(&maps()), known);
        let told = [view.attempted(), view.synced(), view.known()];
        let told: String = told.map(|holds| if holds { 'T' } else { 'F' }).iter().collect();
        assert_eq!(told, answers, "attempted, synced, known of {known:?}");
        assert_eq!(view.kind(&maps()).is_some(), known == Knowledge::Listed);
    }
}

#[tokio::test]
async fn a_kind_that_nobody_watches_is_never_taken_for_absent() {
    let server = Server::start(Options::default()).await.unwrap();
    let client = server.client("default");
    let kinds = Arc::new(Kinds::new(client.clone()));
    let (watches, mut changes) = Watches::new(client, kinds, |_, _| Vec::new(), CancellationToken::new());
    let view = watches.view([&maps()]);
    assert!(!view.attempted() && !view.synced() && !view.known() && view.kind(&maps()).is_none());
    assert_eq!(view.lost([&maps()]).map(|lost| lost.why).as_deref(), Some("it is not watched"));
    watches.ensure(&maps());
    while !matches!(changes.recv().await.unwrap(), Change::Kind(kind) if kind == maps()) {}
    let view = watches.view([&maps()]);
    assert_eq!((view.knowledge(&maps()), view.lost([&maps()])), (Knowledge::Listed, None));
    // One that was not asked for is not known either.
    let other = Gvk::parse("v1", "Secret").unwrap();
    assert_eq!(view.knowledge(&other), Knowledge::Unknown);
}
