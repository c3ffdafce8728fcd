package dev.starling.tensor.fuzz;

import dev.starling.tensor.Tensor;
import java.util.List;

/**
 * A call of the public API.
 *
 * @param code the call in Java, with operands x0, x1, ...
 * @param operands recipes of its operands
 * @param body the call, on the current device
 * @param flowing number of results, from the first on, that may have a gradient
 */
record Call(String code, List<Operand> operands, Body body, int flowing) {
    /** The body of a call. */
    @FunctionalInterface
    interface Body {
        Tensor[] run(Tensor[] x);
    }

    /** The body of a call with one result. */
    @FunctionalInterface
    interface One {
        Tensor run(Tensor[] x);
    }

    static Call of(String code, One body, Operand... operands) {
        return new Call(code, List.of(operands), x -> new Tensor[] {body.run(x)}, 1);
    }

    static Call of(String code, int flowing, Body body, Operand... operands) {
        return new Call(code, List.of(operands), body, flowing);
    }

    /** Returns Java code that makes the operands and the call. */
    String snippet() {
        StringBuilder text = new StringBuilder();
        for (int i = 0; i < operands.size(); i++) {
            text.append("Tensor x").append(i).append(" = ").append(operands.get(i).code()).append(";\n");
        }
        return text + code + ";";
    }
}
