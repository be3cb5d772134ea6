{
  description = "loadproof judges LLM load generators: did the tool offer the load that was asked, and are its claims true?";

  inputs.nixpkgs.url = "github:NixOS/nixpkgs/nixos-25.11";

  outputs =
    { nixpkgs, ... }:
    let
      each = nixpkgs.lib.genAttrs [
        "x86_64-linux"
        "aarch64-linux"
      ];
      ours = each (system: import ./nix nixpkgs.legacyPackages.${system});
    in
    {
      packages = each (system: {
        inherit (ours.${system})
          libtokenizers
          llm-d-inference-sim
          inference-perf
          loadproof
          ;
        default = ours.${system}.loadproof;
      });
      devShells = each (system: {
        default = ours.${system}.shell;
      });
      checks = each (system: {
        inherit (ours.${system}) unit-tests;
      });
      apps = each (system: {
        default = {
          type = "app";
          program = "${ours.${system}.loadproof}/bin/loadproof";
          meta.description = "loadproof's command line";
        };
      });
      formatter = each (system: nixpkgs.legacyPackages.${system}.nixfmt-tree);
    };
}
