package dev.starling.tensor.fuzz;

import static dev.starling.tensor.fuzz.Operand.literal;

import dev.starling.tensor.DType;
import dev.starling.tensor.Tensor;
import dev.starling.tensor.op.Activation;
import java.util.List;
import java.util.Map;
import java.util.function.BinaryOperator;
import java.util.function.UnaryOperator;

/** Calls of elementwise functions. */
final class ElementwiseCalls {
    private record Unary(String name, UnaryOperator<Tensor> function) { }

    private record Binary(String name, BinaryOperator<Tensor> function) { }

    private static final List<Unary> UNARY = List.of(new Unary("neg", Tensor::neg), new Unary("abs", Tensor::abs),
            new Unary("sign", Tensor::sign), new Unary("square", Tensor::square), new Unary("exp", Tensor::exp),
            new Unary("expm1", Tensor::expm1), new Unary("log", Tensor::log), new Unary("log1p", Tensor::log1p),
            new Unary("sqrt", Tensor::sqrt), new Unary("rsqrt", Tensor::rsqrt),
            new Unary("reciprocal", Tensor::reciprocal), new Unary("sin", Tensor::sin), new Unary("cos", Tensor::cos),
            new Unary("tan", Tensor::tan), new Unary("asin", Tensor::asin), new Unary("acos", Tensor::acos),
            new Unary("atan", Tensor::atan), new Unary("sinh", Tensor::sinh), new Unary("cosh", Tensor::cosh),
            new Unary("tanh", Tensor::tanh), new Unary("asinh", Tensor::asinh), new Unary("acosh", Tensor::acosh),
            new Unary("atanh", Tensor::atanh), new Unary("erf", Tensor::erf), new Unary("floor", Tensor::floor),
            new Unary("ceil", Tensor::ceil), new Unary("round", Tensor::round), new Unary("trunc", Tensor::trunc),
            new Unary("relu", Tensor::relu), new Unary("sigmoid", Tensor::sigmoid), new Unary("silu", Tensor::silu),
            new Unary("softplus", Tensor::softplus), new Unary("gelu", Tensor::gelu),
            new Unary("isNan", Tensor::isNan), new Unary("isInf", Tensor::isInf),
            new Unary("isFinite", Tensor::isFinite), new Unary("not", Tensor::not),
            new Unary("zerosLike", Tensor::zerosLike), new Unary("onesLike", Tensor::onesLike));

    private static final List<Binary> BINARY = List.of(new Binary("add", Tensor::add), new Binary("sub", Tensor::sub),
            new Binary("mul", Tensor::mul), new Binary("div", Tensor::div), new Binary("pow", Tensor::pow),
            new Binary("remainder", Tensor::remainder), new Binary("floorDivide", Tensor::floorDivide),
            new Binary("maximum", Tensor::maximum), new Binary("minimum", Tensor::minimum),
            new Binary("atan2", Tensor::atan2), new Binary("eq", Tensor::eq), new Binary("ne", Tensor::ne),
            new Binary("lt", Tensor::lt), new Binary("le", Tensor::le), new Binary("gt", Tensor::gt),
            new Binary("ge", Tensor::ge), new Binary("and", Tensor::and), new Binary("or", Tensor::or),
            new Binary("xor", Tensor::xor));

    /** A function of a tensor and a number. */
    @FunctionalInterface
    private interface Scaled {
        Tensor of(Tensor x, double number);
    }

    private static final List<Map.Entry<String, Scaled>> SCALED = List.of(Map.entry("add", Tensor::add),
            Map.entry("sub", Tensor::sub), Map.entry("mul", Tensor::mul), Map.entry("div", Tensor::div),
            Map.entry("pow", Tensor::pow), Map.entry("eq", Tensor::eq), Map.entry("ne", Tensor::ne),
            Map.entry("lt", Tensor::lt), Map.entry("le", Tensor::le), Map.entry("gt", Tensor::gt),
            Map.entry("ge", Tensor::ge), Map.entry("leakyRelu", Tensor::leakyRelu), Map.entry("elu", Tensor::elu),
            Map.entry("scalarLike", Tensor::scalarLike));

    private ElementwiseCalls() {
    }

    static DType type(Choices c) {
        return c.of(DType.values());
    }

    static DType floating(Choices c) {
        return c.wild && c.oneIn(8) ? type(c) : c.of(DType.F32, DType.F64, DType.BF16, DType.F16);
    }

    static Call unary(Choices c) {
        Unary u = UNARY.get(c.next(UNARY.size()));
        DType type = c.oneIn(4) ? type(c) : floating(c);
        return Call.of("x0." + u.name + "()", x -> u.function.apply(x[0]),
                Operand.of(c, type, Values.ANY, Operand.sizes(c, c.next(6))));
    }

    static Call scaled(Choices c) {
        Map.Entry<String, Scaled> s = SCALED.get(c.next(SCALED.size()));
        DType type = c.oneIn(4) ? type(c) : floating(c);
        double number = c.real(c.ofReals(1, 0, 2, -1, 0.5, -0.5, 3, 2.5, -2, 0.1, 7, 1e-3));
        return Call.of("x0." + s.getKey() + "(" + literal(number) + ")", x -> s.getValue().of(x[0], number),
                Operand.of(c, type, Values.ANY, Operand.sizes(c, c.next(6))));
    }

    static Call clamp(Choices c) {
        double low = c.real(c.ofReals(0, -1, -0.5, 1, Double.NEGATIVE_INFINITY));
        double high = c.real(c.ofReals(1, 0.5, 2, Double.POSITIVE_INFINITY));
        return Call.of("x0.clamp(" + literal(low) + ", " + literal(high) + ")", x -> x[0].clamp(low, high),
                Operand.of(c, type(c), Values.ANY, Operand.sizes(c, c.next(6))));
    }

    static Call binary(Choices c) {
        Binary b = BINARY.get(c.next(BINARY.size()));
        DType type = c.oneIn(3) ? type(c) : floating(c);
        DType other = c.oneIn(4) ? type(c) : type;
        long[] dims = Operand.sizes(c, c.next(6));
        return Call.of("x0." + b.name + "(x1)", x -> b.function.apply(x[0], x[1]),
                Operand.of(c, type, Values.ANY, narrowed(c, dims)),
                Operand.of(c, other, Values.ANY, narrowed(c, dims)));
    }

    /** Returns sizes that broadcast to {@code dims}. */
    static long[] narrowed(Choices c, long... dims) {
        if (!c.oneIn(3)) {
            return dims;
        }
        int cut = dims.length == 0 ? 0 : c.next(dims.length + 1);
        long[] d = java.util.Arrays.copyOfRange(dims, cut, dims.length);
        for (int i = 0; i < d.length; i++) {
            d[i] = c.oneIn(3) ? 1 : d[i];
        }
        return d;
    }

    static Call where(Choices c) {
        DType type = type(c);
        long[] dims = Operand.sizes(c, c.next(5));
        if (c.oneIn(3)) {
            double value = c.real(c.ofReals(0, 1, -1, 0.5));
            return Call.of("x0.maskedFill(x1, " + literal(value) + ")", x -> x[0].maskedFill(x[1], value),
                    Operand.of(c, type, Values.ANY, dims), Operand.of(c, DType.BOOL, Values.ANY, narrowed(c, dims)));
        }
        return Call.of("x0.where(x1, x2)", x -> x[0].where(x[1], x[2]),
                Operand.of(c, DType.BOOL, Values.ANY, narrowed(c, dims)),
                Operand.of(c, type, Values.ANY, narrowed(c, dims)),
                Operand.of(c, c.oneIn(4) ? type(c) : type, Values.ANY, narrowed(c, dims)));
    }

    static Call cast(Choices c) {
        DType target = type(c);
        return Call.of("x0.to(DType." + target.name() + ")", x -> x[0].to(target),
                Operand.of(c, type(c), Values.ANY, Operand.sizes(c, c.next(6))));
    }

    static Call gelu(Choices c) {
        return Call.of("Tensor.compute(Activation.GELU_TANH, x0)",
                x -> Tensor.compute(Activation.GELU_TANH, x[0]),
                Operand.of(c, floating(c), Values.ANY, Operand.sizes(c, c.next(6))));
    }

    static Call softsign(Choices c) {
        return Call.of("Tensor.compute(Activation.SOFTSIGN, x0)",
                x -> Tensor.compute(Activation.SOFTSIGN, x[0]),
                Operand.of(c, floating(c), Values.ANY, Operand.sizes(c, c.next(6))));
    }

    /** A chain of functions, which a captured program fuses into one kernel. */
    static Call chain(Choices c) {
        DType type = floating(c);
        long[] dims = Operand.sizes(c, c.next(5));
        int length = 2 + c.next(4);
        Unary[] first = new Unary[length];
        Binary[] second = new Binary[length];
        String code = "x0";
        for (int i = 0; i < length; i++) {
            first[i] = UNARY.get(c.next(33));
            second[i] = c.oneIn(2) ? BINARY.get(c.next(10)) : null;
            code += "." + first[i].name + "()" + (second[i] == null ? "" : "." + second[i].name + "(x1)");
        }
        return Call.of(code, x -> {
            Tensor y = x[0];
            for (int i = 0; i < first.length; i++) {
                y = first[i].function.apply(y);
                y = second[i] == null ? y : second[i].function.apply(y, x[1]);
            }
            return y;
        }, Operand.of(c, type, Values.USUAL, dims), Operand.of(c, type, Values.USUAL, narrowed(c, dims)));
    }
}
