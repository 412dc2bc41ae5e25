#!/usr/bin/env bash
# quantize.sh PROGRAM DIRECTORY NETS: tests the output and the errors of `lamina profile` and `lamina quantize`.
command=()
. "$(dirname "${BASH_SOURCE[0]}")/ends.sh"

ends 0 '^p.json: the ranges of 4 values on 2 samples$' profile net --input x.npy --input input=x.npy --out p.json
for schema in asymmetric symmetric symmetric_with_uint8 symmetric_with_power2_scale; do
  ends 0 '^2 of 2 products are in int8; 1 quantize, 1 dequantize$' quantize net --profile p.json --schema $schema --out $schema
done
ends 0 'conv2d conv.weight: float, because it is in `keep_float`' quantize net --profile p.json --keep-float conv --out some
ends 0 'quantized_linear' plan asymmetric --shape 2x1x6x6
ends 0 '^quantized: asymmetric$' show asymmetric
ends 0 'y.npy|output' run asymmetric --input x.npy --out results
ends 0 '^constant weights' bundle asymmetric --name small --input 2x1x6x6 --out bundle

ends 2 'net: input .* is not given' profile net --out p.json
ends 2 'absent.npy' profile net --input absent.npy --out p.json
ends 2 '^lamina: nowhere/p.json: cannot be written: ' profile net --input x.npy --out nowhere/p.json
ends 2 'sum: input `right` has 1 files, and input `left` 2' profile sum --input left=pair.npy --input left=pair.npy --input right=pair.npy --out s.json
ends 2 'profile is of another program' quantize sum --profile p.json --out other
ends 2 '`format` is `lamina net`; expected `lamina profile`' quantize net --profile net.json --out other
ends 2 'schema' quantize net --profile p.json --schema signed --out other
ends 2 'no product is named `cnv`; there are `conv.weight`, `head.weight`' quantize net --profile p.json --keep-float cnv --out other
ends 2 '--profile' quantize net --out other

[[ $failures -eq 0 ]] || exit 1
echo "good"
