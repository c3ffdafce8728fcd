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

    /** Copies through temporary memory, because target and source may overlap. */
    private static void assign(Tensor target, Tensor source) {
        Elements from = Elements.of(source, target.shape());
        Elements to = Elements.of(target);
        int n = Math.toIntExact(target.count());
        double[] floats = new double[from.floating() ? n : 0];
        long[] integers = new long[from.floating() ? 0 : n];
        for (int i = 0; i < n; i++) {
            if (from.floating()) {
                floats[i] = from.get(i);
            } else {
                integers[i] = from.getLong(i);
            }
        }
        for (int i = 0; i < n; i++) {
            if (from.floating()) {
                to.set(i, floats[i]);
            } else {
                to.setLong(i, integers[i]);
            }
        }
    }
}
