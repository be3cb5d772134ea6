{
  description = "A stand-in for nixpkgs: strict about what our flake asks of it, and its programs are the host's";

  outputs =
    { ... }:
    let
      lib = import ./lib.nix;
    in
    {
      inherit lib;
      legacyPackages = lib.genAttrs [
        "x86_64-linux"
        "aarch64-linux"
      ] (system: import ./packages.nix { inherit lib system; });
    };
}
