package dev.starling.tensor;

import dev.starling.tensor.host.HostMemory;
import java.math.BigDecimal;
import java.math.MathContext;
import java.math.RoundingMode;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Locale;

/**
 * Prints tensors in NumPy's format: a line with type, shape and device, then the elements in aligned columns. If there
 * are more than {@value #THRESHOLD} elements, only the first and last {@value #EDGE} of each dimension are printed.
 */
final class Printer {
    private static final int THRESHOLD = 1000;
    private static final int EDGE = 3;
    private static final int WIDTH = 75;
    private static final int DIGITS = 8;

    private final boolean elided;
    private final Shape shape;
    private final String[] words;

    private Printer(boolean elided, Shape shape, String[] words) {
        this.elided = elided;
        this.shape = shape;
        this.words = words;
    }

    static String print(Tensor tensor) {
        if (tensor.count() == 0) {
            return tensor.spec() + "\n[]";
        }
        return Recorder.with(Recorder.NONE, () -> {
            try (Scope scope = Scope.open("print")) {
                boolean elided = tensor.count() > THRESHOLD;
                String[] words = words(elided ? edges(tensor) : tensor);
                if (tensor.rank() == 0) {
                    return tensor.spec() + " " + words[0].strip();
                }
                StringBuilder out = new StringBuilder(tensor.spec() + "\n");
                new Printer(elided, tensor.shape(), words).block(out, 0, 0, " ", WIDTH);
                return out.toString();
            }
        });
    }

    /** Returns the elements to print: of long dimensions the first and last ones. */
    private static Tensor edges(Tensor tensor) {
        Tensor x = tensor;
        for (int i = 0; i < tensor.rank(); i++) {
            if (tensor.size(i) > 2 * EDGE) {
                x = Tensor.concat(i, x.narrow(i, 0, EDGE), x.narrow(i, x.size(i) - EDGE, EDGE));
            }
        }
        return x;
    }

    // ---- brackets ----

    /** Prints the block of dimensions {@code axis} and beyond that starts at word {@code from}; returns its end. */
    private int block(StringBuilder out, int axis, int from, String indent, int width) {
        if (axis == shape.rank() - 1) {
            return row(out, from, indent, width);
        }
        boolean gap = elided && shape.dim(axis) > 2 * EDGE;
        long shown = gap ? 2 * EDGE : shape.dim(axis);
        String between = "\n".repeat(shape.rank() - 1 - axis);
        int next = from;
        out.append('[');
        for (long i = 0; i < shown; i++) {
            out.append(i == 0 ? "" : between + indent).append(gap && i == EDGE ? "..." + between + indent : "");
            next = block(out, axis + 1, next, indent + " ", width - 1);
        }
        out.append(']');
        return next;
    }

    private int row(StringBuilder out, int from, String indent, int width) {
        boolean gap = elided && shape.dim(-1) > 2 * EDGE;
        int shown = gap ? 2 * EDGE : (int) shape.dim(-1);
        List<String> line = new ArrayList<>(Arrays.asList(words).subList(from, from + shown));
        if (gap) {
            line.add(EDGE, "...");
        }
        out.append('[');
        int column = indent.length();
        for (int i = 0; i < line.size(); i++) {
            String word = line.get(i);
            boolean wraps = column > indent.length() && column + (i == 0 ? 0 : 1) + word.length() > width - 1;
            if (wraps) {
                out.setLength(out.length() - (line.get(i - 1).length() - line.get(i - 1).stripTrailing().length()));
                out.append('\n').append(indent);
                column = indent.length();
            } else if (i > 0) {
                out.append(' ');
                column++;
            }
            out.append(word);
            column += word.length();
        }
        out.append(']');
        return from + shown;
    }

    // ---- elements ----

    /** Returns each element as text, padded to a common width. */
    private static String[] words(Tensor tensor) {
        if (tensor.dtype().isFloating()) {
            return floats(tensor.dtype(), tensor.toDoubles());
        }
        boolean bool = tensor.dtype() == DType.BOOL;
        return aligned(Arrays.stream(tensor.toLongs())
                .mapToObj(v -> bool ? v != 0 ? "true" : "false" : Long.toString(v)).toArray(String[]::new));
    }

    private static String[] aligned(String[] words) {
        int width = Arrays.stream(words).mapToInt(String::length).max().orElse(0);
        for (int i = 0; i < words.length; i++) {
            words[i] = " ".repeat(width - words[i].length()) + words[i];
        }
        return words;
    }

    private static String[] floats(DType dtype, double[] values) {
        double[] sizes = Arrays.stream(values).filter(v -> Double.isFinite(v) && v != 0).map(Math::abs).toArray();
        double largest = Arrays.stream(sizes).max().orElse(0);
        double smallest = Arrays.stream(sizes).min().orElse(1);
        boolean scientific = sizes.length > 0 && (largest >= 1e8 || smallest < rounded(dtype, 1e-4)
                || rounded(dtype, largest / smallest) > 1000);
        String[] words = new String[values.length];
        int digits = 0;
        for (int i = 0; i < values.length; i++) {
            if (Double.isFinite(values[i])) {
                BigDecimal number = shown(dtype, values[i], scientific);
                digits = Math.max(digits, scientific ? number.precision() - 1 : number.scale());
            }
        }
        for (int i = 0; i < values.length; i++) {
            double v = values[i];
            boolean negative = v < 0 || 1 / v < 0;
            if (Double.isFinite(v)) {
                BigDecimal number = shown(dtype, v, scientific);
                words[i] = (negative ? "-" : "") + (scientific ? exponential(number, digits) : plain(number, digits));
            } else {
                words[i] = Double.isNaN(v) ? "nan" : negative ? "-inf" : "inf";
            }
        }
        return aligned(words);
    }

    /** Returns the magnitude with the fewest digits that identify it, rounded if these are too many. */
    private static BigDecimal shown(DType dtype, double value, boolean scientific) {
        double size = Math.abs(value);
        if (size == 0) {
            return BigDecimal.ZERO;
        }
        BigDecimal exact = new BigDecimal(size);
        BigDecimal number = shortest(dtype, size, exact).stripTrailingZeros();
        if (scientific && number.precision() > DIGITS + 1) {
            number = exact.round(new MathContext(DIGITS + 1, RoundingMode.HALF_EVEN));
        } else if (!scientific && number.scale() > DIGITS) {
            number = exact.setScale(DIGITS, RoundingMode.HALF_EVEN);
        }
        number = number.signum() == 0 ? BigDecimal.ZERO : number.stripTrailingZeros();
        return scientific || number.scale() >= 0 ? number : number.setScale(0);
    }

    private static BigDecimal shortest(DType dtype, double size, BigDecimal exact) {
        return switch (dtype) {
            case F32 -> new BigDecimal(Float.toString((float) size));
            case F64 -> new BigDecimal(Double.toString(size));
            default -> {
                BigDecimal number = exact;
                for (int digits = 1; digits < DIGITS; digits++) {
                    number = exact.round(new MathContext(digits, RoundingMode.HALF_EVEN));
                    if (rounded(dtype, number.doubleValue()) == size) {
                        break;
                    }
                }
                yield number;
            }
        };
    }

    private static double rounded(DType dtype, double value) {
        return switch (dtype) {
            case F32 -> (float) value;
            case F16 -> Float.float16ToFloat(Float.floatToFloat16((float) value));
            case BF16 -> HostMemory.bf16ToFloat(HostMemory.floatToBf16((float) value));
            default -> value;
        };
    }

    private static String plain(BigDecimal number, int digits) {
        String text = number.toPlainString();
        String word = number.scale() == 0 ? text + "." : text;
        return word + " ".repeat(digits - number.scale());
    }

    private static String exponential(BigDecimal number, int digits) {
        String all = number.unscaledValue().toString();
        int exponent = number.signum() == 0 ? 0 : all.length() - 1 - number.scale();
        String power = String.format(Locale.ROOT, "e%s%02d", exponent < 0 ? "-" : "+", Math.abs(exponent));
        return all.charAt(0) + "." + all.substring(1) + "0".repeat(digits - all.length() + 1) + power;
    }
}
