# What our formulas take from nixpkgs' lib/, each with its file. A name that is not here is an error.
rec {
  # lib/attrsets.nix
  genAttrs =
    names: value:
    builtins.listToAttrs (
      map (name: {
        inherit name;
        value = value name;
      }) names
    );
  getLib = package: package.lib or package;
  # lib/lists.nix
  concatMap = builtins.concatMap;
  # lib/trivial.nix
  importJSON = path: builtins.fromJSON (builtins.readFile path);
  importTOML = path: builtins.fromTOML (builtins.readFile path);
  # lib/meta.nix
  getExe = package: "${package}/bin/${package.meta.mainProgram}";
  # lib/licenses.nix
  licenses = {
    asl20 = "Apache-2.0";
    mit = "MIT";
  };
  # lib/systems/doubles.nix
  platforms.linux = [
    "x86_64-linux"
    "aarch64-linux"
  ];

  # lib/customisation.nix
  callPackageWith =
    scope: formula: more:
    let
      wanted = builtins.functionArgs (import formula);
      missing = builtins.filter (name: !(wanted.${name} || scope ? ${name} || more ? ${name})) (
        builtins.attrNames wanted
      );
    in
    if missing != [ ] then
      throw "${toString formula}: there is no ${builtins.concatStringsSep ", " missing}"
    else
      import formula (builtins.intersectAttrs wanted (scope // more));
  makeScope =
    newScope: members:
    let
      scope = members scope // {
        callPackage = newScope scope;
      };
    in
    scope;
}
