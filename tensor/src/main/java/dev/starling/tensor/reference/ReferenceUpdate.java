package dev.starling.tensor.reference;

import dev.starling.tensor.Tensor;
import dev.starling.tensor.op.Update;
import java.util.Arrays;

/** Operations that change their first operand, and their state, in place. */
final class ReferenceUpdate {
    private ReferenceUpdate() {
    }

    static void run(Update op, Tensor[] in) {
        if (op instanceof Update.Assign) {
            assign(in[0], in[1]);
            return;
        }
        FormulaInterpreter formula = new FormulaInterpreter(op.formula(), in[0].dtype(), op.parameters());
        Elements[] operands = Arrays.stream(in).map(Elements::of).toArray(Elements[]::new);
        for (long i = 0; i < in[0].count(); i++) {
            formula.read(operands, i);
            formula.run();
            int output = 0;
            for (int k = 0; k < operands.length; k++) {
                if (op.changes(k)) {
                    formula.write(output++, operands[k], i);
                }
            }
        }
    }

    private static void assign(Tensor target, Tensor source) {
        Elements from = Elements.of(source, target.shape());
        Elements to = Elements.of(target);
        for (long i = 0; i < target.count(); i++) {
            to.copy(i, from, i);
        }
    }
}
