//! Compiles the shim between this crate and DPDK, if the feature `dpdk` is on.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    #[cfg(feature = "dpdk")]
    dpdk::compile();
}

#[cfg(feature = "dpdk")]
mod dpdk {
    use std::env;
    use std::process::Command;

    const SHIM: &str = "src/frames/dpdk/shim.c";

    pub fn compile() {
        println!("cargo::rerun-if-changed={SHIM}");
        println!("cargo::rerun-if-env-changed=PKG_CONFIG");
        println!("cargo::rerun-if-env-changed=PKG_CONFIG_PATH");
        let mut shim = cc::Build::new();
        shim.file(SHIM).warnings_into_errors(true);
        // These flags include the processor type and a header to include first.
        for flag in pkg_config("--cflags") {
            shim.flag(flag);
        }
        shim.compile("byname_dpdk_shim");
        for flag in pkg_config("--libs") {
            match flag.split_at_checked(2) {
                Some(("-l", library)) => println!("cargo::rustc-link-lib={library}"),
                Some(("-L", folder)) => println!("cargo::rustc-link-search=native={folder}"),
                _ => {}
            }
        }
    }

    /// Asks pkg-config about DPDK.
    fn pkg_config(what: &str) -> Vec<String> {
        let program = env::var("PKG_CONFIG").unwrap_or_else(|_| "pkg-config".into());
        let told = Command::new(&program).args([what, "libdpdk >= 22.11"]).output();
        match told {
            Ok(told) if told.status.success() => {
                String::from_utf8_lossy(&told.stdout).split_whitespace().map(str::to_owned).collect()
            }
            Ok(told) => fail(&String::from_utf8_lossy(&told.stderr)),
            Err(error) => fail(&format!("cannot run {program}: {error}")),
        }
    }

    fn fail(reason: &str) -> ! {
        println!(
            "cargo::error=the feature `dpdk` needs DPDK 22.11 or newer; on Debian: apt install libdpdk-dev pkg-config"
        );
        println!("cargo::error={}", reason.trim().replace('\n', " "));
        std::process::exit(1);
    }
}
