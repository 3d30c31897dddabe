use super::*;

type Rows = Vec<(Vec<u8>, u64, Vec<u8>)>;

fn rows(disk: &Disk) -> Result<Rows, Error> {
    let mut all = Vec::new();
    disk.load(|key, rv, json| {
        all.push((key.to_vec(), rv, json.to_vec()));
        Ok(())
    })?;
    Ok(all)
}

fn open(dir: &Path) -> Result<Disk, Error> {
    Disk::open(dir, Open::OrCreate)
}

fn row(key: &str, rv: u64, json: &'static [u8]) -> Row<'static> {
    Row { key: key.as_bytes().to_vec(), value: Some((rv, json)) }
}

/// A store with a few hundred objects, and an earlier run's key beside it.
fn filled(dir: &Path) -> Rows {
    let mut disk = open(dir).unwrap();
    let text: &'static [u8] = &[b'x'; 300];
    for number in 0..300 {
        disk.commit(&[row(&format!("k{number}"), number + 1, text)], number + 1).unwrap();
    }
    std::fs::write(dir.join("token"), "t").unwrap();
    rows(&disk).unwrap()
}

#[test]
fn rows_and_high_water_come_back_after_reopening() {
    let dir = tempfile::tempdir().unwrap();
    let mut disk = open(dir.path()).unwrap();
    assert_eq!(disk.high_water().unwrap(), 0);
    disk.commit(&[row("b", 1, b"{}"), row("a", 2, b"[]")], 2).unwrap();
    disk.commit(&[Row { key: b"b".to_vec(), value: None }], 3).unwrap();
    drop(disk);
    let disk = open(dir.path()).unwrap();
    assert_eq!(disk.high_water().unwrap(), 3);
    assert_eq!(rows(&disk).unwrap(), [(b"a".to_vec(), 2, b"[]".to_vec())]);
}

#[test]
fn a_newer_format_is_refused_and_left_alone() {
    let dir = tempfile::tempdir().unwrap();
    let disk = open(dir.path()).unwrap();
    write(disk.database.as_ref().unwrap(), |transaction| {
        transaction.open_table(META)?.insert(FORMAT, 7)?;
        Ok(())
    })
    .unwrap();
    drop(disk);
    let refused = open(dir.path()).unwrap_err().to_string();
    assert!(refused.contains("format version 7") && refused.contains("up to version 2"), "{refused}");
}

#[test]
fn a_store_without_checksums_is_upgraded_in_place() {
    let dir = tempfile::tempdir().unwrap();
    let database = builder().create(dir.path().join(FILE)).unwrap();
    write(&database, |transaction| {
        let mut meta = transaction.open_table(META)?;
        meta.insert(FORMAT, 1)?;
        meta.insert(HIGH_WATER, 9)?;
        let mut objects = transaction.open_table(UNSEALED)?;
        objects.insert(b"a".as_slice(), (8, b"{}".as_slice()))?;
        objects.insert(b"b".as_slice(), (9, b"[]".as_slice()))?;
        Ok(())
    })
    .unwrap();
    drop(database);
    for _ in 0..2 {
        let disk = open(dir.path()).unwrap();
        assert_eq!(disk.high_water().unwrap(), 9);
        let expected = [(b"a".to_vec(), 8, b"{}".to_vec()), (b"b".to_vec(), 9, b"[]".to_vec())];
        assert_eq!(rows(&disk).unwrap(), expected);
    }
}

#[test]
fn a_record_that_fails_its_checksum_is_refused_with_file_key_and_the_way_to_restore() {
    let dir = tempfile::tempdir().unwrap();
    let mut disk = open(dir.path()).unwrap();
    disk.commit(&[row("g/r//x", 1, b"{\"a\":1}")], 1).unwrap();
    write(disk.database.as_ref().unwrap(), |transaction| {
        let mut records = transaction.open_table(RECORDS)?;
        let sum = checksum(b"g/r//x", 1, b"{\"a\":1}");
        records.insert(b"g/r//x".as_slice(), (1, sum, b"{\"a\":2}".as_slice()))?;
        Ok(())
    })
    .unwrap();
    let error = rows(&disk).unwrap_err().to_string();
    for part in ["`g/r//x`", "store.redb`", "checksum", "kardinal restore FILE --data-dir"] {
        assert!(error.contains(part), "{part}: {error}");
    }
}

#[test]
fn a_record_that_is_lost_is_noticed() {
    let dir = tempfile::tempdir().unwrap();
    let mut disk = open(dir.path()).unwrap();
    disk.commit(&[row("a", 1, b"{}"), row("b", 2, b"{}")], 2).unwrap();
    write(disk.database.as_ref().unwrap(), |transaction| {
        transaction.open_table(RECORDS)?.remove(b"a".as_slice())?;
        Ok(())
    })
    .unwrap();
    let error = rows(&disk).unwrap_err().to_string();
    assert!(error.contains("missing") && error.contains("kardinal restore"), "{error}");
}

#[test]
fn a_missing_empty_or_fresh_store_beside_keys_is_refused_with_the_way_to_restore() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("token"), "t").unwrap();
    let path = dir.path().join(FILE);
    let check = |state: &str| {
        let error = open(dir.path()).unwrap_err().to_string();
        for part in [state, "token`", "kardinal restore FILE --data-dir", "start afresh"] {
            assert!(error.contains(part), "{part}: {error}");
        }
    };
    check("is missing");
    assert!(!path.exists(), "nothing is made in its place");
    std::fs::write(&path, "").unwrap();
    check("is empty");
    std::fs::remove_file(&path).unwrap();
    drop(builder().create(&path).unwrap());
    check("holds nothing");
    std::fs::remove_file(dir.path().join("token")).unwrap();
    open(dir.path()).unwrap();
}

/// Whatever happens to the file, it is refused or all is as it was.
fn check_damage(dir: &Path, expected: &Rows, what: &str) -> bool {
    match open(dir).and_then(|disk| rows(&disk)) {
        Ok(found) => {
            assert_eq!(&found, expected, "{what}");
            false
        }
        Err(error) => {
            let error = error.to_string();
            assert!(error.contains("kardinal restore FILE --data-dir"), "{what}: {error}");
            true
        }
    }
}

#[test]
fn a_truncated_store_is_never_served() {
    let dir = tempfile::tempdir().unwrap();
    let expected = filled(dir.path());
    let path = dir.path().join(FILE);
    let whole = std::fs::read(&path).unwrap();
    for part in 0..64 {
        let length = whole.len() * part / 64;
        std::fs::write(&path, &whole[..length]).unwrap();
        assert!(
            check_damage(dir.path(), &expected, &format!("{length} bytes")),
            "{length} of {}",
            whole.len()
        );
    }
}

#[test]
fn flipped_bits_are_never_served() {
    let dir = tempfile::tempdir().unwrap();
    let expected = filled(dir.path());
    let path = dir.path().join(FILE);
    let whole = std::fs::read(&path).unwrap();
    let mut refused = 0;
    let used: Vec<usize> = (0..whole.len()).filter(|at| whole[*at] != 0).collect();
    for at in used.iter().step_by(used.len() / 150) {
        let mut flipped = whole.clone();
        flipped[*at] ^= 1 << (at % 8);
        std::fs::write(&path, &flipped).unwrap();
        refused += usize::from(check_damage(dir.path(), &expected, &format!("byte {at}")));
    }
    assert!(refused > 20, "{refused}: hardly any flip hit what is stored");
}
