package dev.starling.tensor.fuzz;

import dev.starling.tensor.Tensor;
import java.util.List;

/**
 * A call of the public API.
 *
 * @param code as Java, with operands x0, x1, ...
 * @param operands recipes of its operands
 * @param body the call, on the current device
 * @param flowing how many results, from the first on, may carry a gradient
 */
record Call(String code, List<Operand> operands, Body body, int flowing) {
    /** What is called. */
    @FunctionalInterface
    interface Body {
        Tensor[] run(Tensor[] x);
    }

    /** What is called, with one result. */
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

    /** Returns Java code that makes the operands and calls. */
    String snippet() {
        StringBuilder text = new StringBuilder();
        for (int i = 0; i < operands.size(); i++) {
            text.append("Tensor x").append(i).append(" = ").append(operands.get(i).code()).append(";\n");
        }
        return text + code + ";";
    }
}
