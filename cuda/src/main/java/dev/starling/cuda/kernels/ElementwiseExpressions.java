package dev.starling.cuda.kernels;

import dev.starling.tensor.DType;
import dev.starling.tensor.op.scalar.Formula;
import dev.starling.tensor.spi.Chain;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.concurrent.ConcurrentHashMap;
import org.jspecify.annotations.Nullable;

/**
 * Formulas as CUDA C++ expressions over operands {@code a b c} and parameters {@code s.at[k]}; see elementwise.cu.
 * Parameters are arguments of the kernel, so new values need no new kernel.
 */
final class ElementwiseExpressions {
    private static final int MAX_OPERANDS = 3;
    /** The printed formulas, by the type of the last operand. */
    private static final ConcurrentHashMap<Formula, String[]> PRINTED = new ConcurrentHashMap<>();

    private ElementwiseExpressions() { }

    /** A chain as an expression, and the values of its parameters. */
    record Fused(String expression, double[] parameters) { }

    /** Returns the expression of a formula; its type is the wide type of {@code type}, or i64. */
    static String of(Formula formula, DType type) {
        String[] texts = PRINTED.computeIfAbsent(formula, f -> new String[DType.values().length]);
        String text = texts[type.ordinal()];
        if (text == null) {
            FormulaSource source = new FormulaSource(formula, List.of("a", "b", "c"), 0, type, "t");
            String result = formula.interpret(source).getFirst();
            text = source.statements().isEmpty() ? result : body(source.statements() + "return " + result + "; ");
            texts[type.ordinal()] = text;
        }
        return text;
    }

    private static String body(String statements) {
        return "[&] { " + statements + "}()";
    }

    /**
     * Returns a chain of up to three operands as one expression that narrows intermediate results to their types; or
     * {@code null} if they compute in several types, or have parameters for integers. NVIDIA's compiler may still fuse
     * a product with a sum of the next operation, so that f32 and f64 results differ in rounding.
     */
    static @Nullable Fused of(Chain chain) {
        int operands = chain.operands().size();
        String wide = Types.wide(chain.operands().getLast().dtype());
        List<String> values = new ArrayList<>(List.of("a", "b", "c").subList(0, Math.min(operands, MAX_OPERANDS)));
        StringBuilder statements = new StringBuilder();
        double[] all = Formula.noParameters();
        for (int i = 0; i < chain.steps().size(); i++) {
            Chain.Step step = chain.steps().get(i);
            DType type = chain.spec(step.of().getLast()).dtype();
            double[] parameters = step.op().parameters();
            if (operands > MAX_OPERANDS || !Types.wide(type).equals(wide)
                    || parameters.length > 0 && !type.isFloating()) {
                return null;
            }
            int first = all.length;
            all = Arrays.copyOf(all, first + parameters.length);
            System.arraycopy(parameters, 0, all, first, parameters.length);
            String name = "v" + (operands + i);
            Formula formula = step.op().formula();
            FormulaSource source = new FormulaSource(formula, step.of().stream().map(values::get).toList(), first,
                    type, name + "_");
            String result = formula.interpret(source).getFirst();
            statements.append(source.statements()).append(i == chain.steps().size() - 1 ? "return " + result + "; "
                    : "auto " + name + " = widen(narrow<" + Types.of(step.result().dtype()) + ">(" + result + ")); ");
            values.add(name);
        }
        return new Fused(body(statements.toString()), all);
    }
}
