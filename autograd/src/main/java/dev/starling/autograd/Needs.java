package dev.starling.autograd;

import dev.starling.tensor.Tensor;

/** Which operands of an operation need a gradient. */
final class Needs {
    /** The largest number of operands whose arrays are shared. */
    private static final int FEW = 5;
    /** One array for each number of operands and each choice of them, whose bits follow a bit 1 in the index. */
    private static final boolean[][] SHARED = new boolean[2 << FEW][];

    static {
        for (int choice = 1; choice < SHARED.length; choice++) {
            boolean[] needs = new boolean[Integer.SIZE - 1 - Integer.numberOfLeadingZeros(choice)];
            for (int k = 0; k < needs.length; k++) {
                needs[k] = (choice >> needs.length - 1 - k & 1) != 0;
            }
            SHARED[choice] = needs;
        }
    }

    private Needs() {
    }

    /** Returns the needs in an array that must not be changed. */
    static boolean[] shared(Tensor[] operands, VariableMap variables) {
        if (operands.length > FEW) {
            return of(operands, variables);
        }
        int choice = 1;
        for (Tensor t : operands) {
            choice = choice << 1 | (variables.get(t.id()) >= 0 ? 1 : 0);
        }
        return SHARED[choice];
    }

    /** Returns the needs in an array of the caller's. */
    static boolean[] of(Tensor[] operands, VariableMap variables) {
        boolean[] needs = new boolean[operands.length];
        for (int k = 0; k < needs.length; k++) {
            needs[k] = variables.get(operands[k].id()) >= 0;
        }
        return needs;
    }
}
