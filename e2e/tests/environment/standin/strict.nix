# What our formulas may say, and what they must: unknown and missing arguments, malformed hashes and dependencies that
# are no packages are errors when a package is looked at; in nixpkgs some of them show only when it is built.
{ lib }:
rec {
  # The two rooms of a Python's packages that our formulas use.
  pythonPackages.pdm-backend = "pdm-backend"; # pkgs/development/python-modules/pdm-backend/default.nix

  isVariable = name: builtins.match "[A-Z][A-Z0-9_]*" name != null;

  arguments =
    what: optional: required: given:
    let
      unknown = builtins.attrNames (builtins.removeAttrs given (optional ++ required));
      missing = builtins.filter (name: !(given ? ${name})) required;
    in
    if unknown != [ ] then
      throw "${what}: unknown argument ${builtins.concatStringsSep ", " unknown}"
    else if missing != [ ] then
      throw "${what}: lacks ${builtins.concatStringsSep ", " missing}"
    else
      given;

  # 32 bytes: 43 digits, of which the last has 4 of its 6 bits, and the padding.
  hash =
    what: given:
    if builtins.match "sha256-[A-Za-z0-9+/]{42}[AEIMQUYcgkosw048]=" given == null then
      throw "${what}: ${given} is no sha256 as Nix writes it"
    else
      given;

  dependencies =
    packages: result:
    builtins.foldl' (
      rest: package:
      if builtins.isAttrs package && package ? drvPath then
        builtins.seq package.drvPath rest
      else
        throw "a dependency is no package: ${builtins.toJSON package}"
    ) result packages;

  # A function like mkDerivation, of arguments or of a function of the final ones; all that goes into the package is
  # looked at, its commands with whatever they name too, and `make` makes the result.
  building =
    what: optional: required: make: given:
    let
      final = if builtins.isFunction given then given final else given;
      common = [
        "buildInputs"
        "doCheck"
        "env"
        "meta"
        "name"
        "nativeBuildInputs"
        "pname"
        "src"
        "version"
      ];
      known = arguments what (common ++ optional) required final;
      hashes = map (name: hash "${what}: ${name}" known.${name}) (
        builtins.filter (name: known ? ${name}) [
          "cargoHash"
          "vendorHash"
        ]
      );
      texts = map (name: "${known.${name} or ""}") [
        "buildCommand"
        "buildPhase"
        "installPhase"
        "src"
      ];
    in
    if !(known ? name) && !(known ? pname && known ? version) then
      throw "${what}: lacks a name"
    else
      builtins.deepSeq [
        hashes
        texts
        (known.env or { })
      ] (dependencies ((known.nativeBuildInputs or [ ]) ++ (known.buildInputs or [ ])) (make known));
}
