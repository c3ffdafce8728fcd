package dev.starling.tensor.reference;

import dev.starling.tensor.DType;
import dev.starling.tensor.Tensor;
import dev.starling.tensor.op.Elementwise;
import java.util.Arrays;

/** Elementwise operations: interprets their formulas. */
final class ReferenceElementwise {
    private ReferenceElementwise() {
    }

    static void run(Elementwise op, Tensor[] in, Tensor out) {
        DType type = in[in.length - 1].dtype();
        FormulaInterpreter formula = new FormulaInterpreter(op.formula(), type, op.parameters());
        Elements[] operands = Arrays.stream(in).map(x -> Elements.of(x, out.shape())).toArray(Elements[]::new);
        Elements y = Elements.of(out);
        for (long i = 0; i < out.count(); i++) {
            formula.read(operands, i);
            formula.run();
            formula.write(0, y, i);
        }
    }
}
