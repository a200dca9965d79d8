//! The code in `src/proto.rs` and the descriptors of the Python client are what `proto/gribi.proto` says.

use std::path::{Path, PathBuf};

use prost::Message;

fn here(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(path)
}

/// Compares a file of the tree with what it should be, or writes it.
fn is_current(path: &Path, wanted: &[u8]) {
    if std::env::var_os("BYNAME_WRITE_PROTO").is_some() {
        std::fs::write(path, wanted).expect("write");
    }
    let there = std::fs::read(path).expect("read");
    let how = "BYNAME_WRITE_PROTO=1 cargo test -p byname-gribi --test proto";
    assert!(there == wanted, "{} is not of proto/gribi.proto: {how}", path.display());
}

#[test]
fn the_code_is_what_the_proto_file_says() {
    let descriptors = protox::compile([here("proto/gribi.proto")], [here("proto")]).expect("gribi.proto compiles");
    let folder = std::env::temp_dir().join(format!("byname-gribi-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a folder");
    tonic_prost_build::configure()
        .build_transport(false)
        .out_dir(&folder)
        .compile_fds(descriptors.clone())
        .expect("code is generated");
    let code = std::fs::read(folder.join("byname.gribi.v1.rs")).expect("generated");
    std::fs::remove_dir_all(&folder).expect("remove");
    is_current(&here("src/proto/generated.rs"), &code);

    // For Python: without positions and comments.
    let mut bare = descriptors;
    bare.file.iter_mut().for_each(|file| file.source_code_info = None);
    is_current(&here("../python/python/byname/gribi.binpb"), &bare.encode_to_vec());
}
