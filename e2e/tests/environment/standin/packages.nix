# The packages that our formulas name, each with the file of nixpkgs that it stands for. Nothing is fetched or built:
# a package is its main program, the host's, as host.json says (written by tests.environment.nix_standin). But what
# is asked for is looked at as strictly as there, and more: see strict.nix.
{ lib, system }:
let
  host = builtins.fromJSON (builtins.readFile ./host.json);
  strict = import ./strict.nix { inherit lib; };

  # A derivation whose bin/ has links to the host's programs; `more` is what our formulas take from the package.
  linked =
    name: programs: more:
    builtins.derivation {
      inherit name system;
      builder = host.sh;
      args = [ ./package.sh ] ++ programs;
    }
    // more;
  of-host =
    name:
    linked name host.programs.${name} {
      inherit name;
      meta.mainProgram = name;
    };
  made =
    arguments:
    let
      program = arguments.meta.mainProgram or null;
    in
    linked (arguments.name or "${arguments.pname}-${arguments.version}")
      (if program == null then [ ] else host.programs.${program})
      {
        pname = arguments.pname or "";
        version = arguments.version or "";
        meta = arguments.meta or { };
      };

  fetched =
    name: hash:
    builtins.derivation {
      inherit name system;
      builder = host.sh;
      args = [
        "-c"
        "echo nothing is fetched here >&2; exit 1"
      ];
      outputHash = strict.hash name hash;
      outputHashMode = "recursive";
      outputHashAlgo = "sha256";
    };

  names = {
    inherit lib;
    newScope = more: lib.callPackageWith (names // more); # pkgs/top-level/splice.nix

    bashInteractive = of-host "bash"; # pkgs/shells/bash/5.nix
    curl = of-host "curl"; # pkgs/by-name/cu/curlMinimal/package.nix
    git = of-host "git"; # pkgs/by-name/gi/git/package.nix
    nixfmt-tree = of-host "treefmt"; # pkgs/by-name/ni/nixfmt-tree/package.nix
    pdm = of-host "pdm"; # pkgs/by-name/pd/pdm/package.nix
    pkg-config = of-host "pkg-config"; # pkgs/build-support/pkg-config-wrapper/default.nix
    ruff = of-host "ruff"; # pkgs/by-name/ru/ruff/package.nix
    util-linux = of-host "mount"; # pkgs/by-name/ut/util-linux/package.nix
    uv = of-host "uv"; # pkgs/by-name/uv/uv/package.nix
    zeromq = linked "zeromq" [ ] { }; # pkgs/by-name/ze/zeromq/package.nix
    zlib = linked "zlib" [ ] { lib = host.libraries; }; # pkgs/development/libraries/zlib/default.nix
    # pkgs/development/interpreters/python/cpython/default.nix, …/python/with-packages.nix
    python313 = of-host "python3.13" // {
      withPackages = choose: builtins.seq (builtins.length (choose strict.pythonPackages)) (of-host "python3.13");
    };

    stdenvNoCC = {
      # pkgs/stdenv/generic/make-derivation.nix
      hostPlatform = { inherit system; };
      mkDerivation = strict.building "mkDerivation" [ "buildPhase" "installPhase" "buildCommand" ] [ ] made;
    };
    stdenv = {
      # pkgs/stdenv/linux/default.nix
      cc.cc = linked "gcc" [ ] { lib = host.libraries; };
    };
    # pkgs/build-support/go/module.nix
    buildGoModule = strict.building "buildGoModule" [ "subPackages" "ldflags" "tags" "proxyVendor" ] [
      "src"
      "vendorHash"
    ] made;
    # pkgs/build-support/rust/build-rust-package/default.nix
    rustPlatform.buildRustPackage = strict.building "buildRustPackage" [ "buildFeatures" "cargoBuildFlags" ] [
      "src"
      "cargoHash"
    ] made;

    # pkgs/build-support/fetchgithub/default.nix
    fetchFromGitHub =
      arguments:
      let
        known = strict.arguments "fetchFromGitHub" [ "fetchSubmodules" ] [ "owner" "repo" "tag" "hash" ] arguments;
      in
      fetched "source" known.hash;
    # pkgs/build-support/fetchpypi/default.nix
    fetchPypi =
      arguments:
      let
        wheel = strict.arguments "fetchPypi" [ ] [
          "abi"
          "dist"
          "format"
          "hash"
          "platform"
          "pname"
          "python"
          "version"
        ] arguments;
        parts = builtins.concatStringsSep "-" [
          wheel.pname
          wheel.version
          wheel.python
          wheel.abi
          wheel.platform
        ];
      in
      if wheel.format != "wheel" then throw "fetchPypi: no wheel: ${parts}" else fetched "${parts}.whl" wheel.hash;

    # pkgs/build-support/trivial-builders/default.nix
    writeShellScriptBin =
      name: text:
      builtins.derivation {
        inherit name system text;
        builder = host.sh;
        args = [ ./script.sh ];
      }
      // {
        inherit name;
        meta.mainProgram = name;
      };

    # pkgs/build-support/mkshell/default.nix; `nix develop` sources stdenv/setup, and wants a builder called bash
    mkShellNoCC =
      arguments:
      let
        known = strict.arguments "mkShellNoCC" (
          [ "shellHook" ] ++ builtins.filter strict.isVariable (builtins.attrNames arguments)
        ) [ "packages" ] arguments;
      in
      strict.dependencies known.packages (
        builtins.derivation (
          builtins.removeAttrs known [ "packages" ]
          // {
            name = "nix-shell";
            inherit system;
            builder = host.bash;
            outputs = [ "out" ];
            stdenv = ./stdenv;
            nativeBuildInputs = known.packages;
          }
        )
      );
  };
in
names
