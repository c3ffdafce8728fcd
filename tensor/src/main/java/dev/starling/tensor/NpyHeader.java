package dev.starling.tensor;

import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Collections;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.jspecify.annotations.Nullable;

/**
 * The header of an NPY file: the literal of a Python dictionary with exactly the keys {@code descr},
 * {@code fortran_order} and {@code shape}.
 *
 * @param dtype the element type
 * @param swapped whether the bytes of each element are in the byte order that this machine does not use
 * @param fortran whether the first dimension, not the last, is the contiguous one
 * @param shape the sizes
 * @param bytes total size of the elements
 */
record NpyHeader(DType dtype, boolean swapped, boolean fortran, Shape shape, long bytes) {
    private static final Pattern TOKEN = Pattern.compile("\\G\\s*('[^'\\\\]*'|\"[^\"\\\\]*\"|\\w+|[{}():,\\[])");
    private static final int ALIGNMENT = 64;

    /** Returns NumPy's name of a type in little-endian order, or {@code null} if NumPy lacks the type. */
    static @Nullable String descr(DType dtype) {
        return switch (dtype) {
            case F32 -> "<f4";
            case F64 -> "<f8";
            case F16 -> "<f2";
            case I64 -> "<i8";
            case I32 -> "<i4";
            case I8 -> "|i1";
            case U8 -> "|u1";
            case BOOL -> "|b1";
            case BF16 -> null;
        };
    }

    /**
     * Returns everything that precedes the elements in a file of version 1, padded so that the elements are aligned.
     */
    static ByteBuffer encode(String descr, Shape shape) {
        StringBuilder sizes = new StringBuilder();
        for (long d : shape.dims()) {
            sizes.append(sizes.isEmpty() ? "" : " ").append(d).append(',');
        }
        if (shape.rank() > 1) {
            sizes.setLength(sizes.length() - 1);
        }
        String order = ByteOrder.nativeOrder() == ByteOrder.BIG_ENDIAN ? descr.replace('<', '>') : descr;
        String text = "{'descr': '" + order + "', 'fortran_order': False, 'shape': (" + sizes + "), }";
        int before = 10;
        int total = Math.ceilDiv(before + text.length() + 1, ALIGNMENT) * ALIGNMENT;
        ByteBuffer bytes = ByteBuffer.allocate(total).order(ByteOrder.LITTLE_ENDIAN);
        bytes.put((byte) 0x93).put("NUMPY".getBytes(StandardCharsets.US_ASCII)).put((byte) 1).put((byte) 0);
        bytes.putShort((short) (total - before)).put(text.getBytes(StandardCharsets.US_ASCII));
        while (bytes.position() < total - 1) {
            bytes.put((byte) ' ');
        }
        return bytes.put((byte) '\n').flip();
    }

    /** Returns the sizes in the order of storage, slowest-varying dimension first. */
    Shape stored() {
        if (!fortran) {
            return shape;
        }
        List<Long> dims = new ArrayList<>();
        for (long d : shape.dims()) {
            dims.add(d);
        }
        Collections.reverse(dims);
        return Shape.of(dims.stream().mapToLong(Long::longValue).toArray());
    }

    /**
     * Parses a header.
     *
     * @param source the file's name, for messages
     * @throws TensorException if the text does not have the form above, or names an unknown type or an impossible shape
     */
    static NpyHeader parse(String source, String text) {
        Map<String, String> entries = new Parser(source, text).entries();
        String descr = Objects.requireNonNull(entries.get("descr"));
        String order = Objects.requireNonNull(entries.get("fortran_order"));
        DType dtype = dtype(source, descr);
        boolean fortran = switch (order) {
            case "True" -> true;
            case "False" -> false;
            default -> throw fault(source, "fortran_order must be True or False, got " + order);
        };
        Shape shape = shape(source, Objects.requireNonNull(entries.get("shape")));
        boolean big = ByteOrder.nativeOrder() == ByteOrder.BIG_ENDIAN;
        boolean swapped = dtype.bytes() > 1 && (descr.charAt(1) == '>' ? !big : descr.charAt(1) == '<' && big);
        try {
            return new NpyHeader(dtype, swapped, fortran, shape, Math.multiplyExact(shape.count(), dtype.bytes()));
        } catch (ArithmeticException e) {
            throw fault(source, "holds a shape of " + shape + ", more than 2^63 bytes");
        }
    }

    private static TensorException fault(String source, String relation) {
        return new TensorException(TensorException.Problem.DATA, "read " + source, List.of(), relation,
                "write it with numpy.save or NpyFile.write");
    }

    private static DType dtype(String source, String descr) {
        String name = descr.length() > 3 ? descr.substring(2, descr.length() - 1) : "";
        boolean quoted = descr.length() > 4 && (descr.charAt(0) == '\'' || descr.charAt(0) == '"');
        if (quoted && "<>=|".indexOf(descr.charAt(1)) >= 0) {
            for (DType dtype : DType.values()) {
                String known = descr(dtype);
                if (known != null && known.substring(1).equals(name)
                        && (dtype.bytes() == 1 || descr.charAt(1) != '|')) {
                    return dtype;
                }
            }
        }
        throw new TensorException(TensorException.Problem.DATA, "read " + source, List.of(),
                "holds elements of type " + descr + "; supported are b1 i1 u1 i4 i8 f2 f4 f8",
                "convert with astype('float32') or another of these before numpy.save");
    }

    private static Shape shape(String source, String tuple) {
        String inner = tuple.substring(1, tuple.length() - 1);
        String[] parts = inner.isEmpty() ? new String[0] : inner.split(",");
        if (parts.length > Shape.MAX_RANK) {
            throw fault(source, "has " + parts.length + " dimensions; at most " + Shape.MAX_RANK + " are supported");
        }
        long[] dims = new long[parts.length];
        try {
            for (int i = 0; i < dims.length; i++) {
                dims[i] = Long.parseLong(parts[i]);
            }
            return Shape.of(dims);
        } catch (NumberFormatException | TensorException e) {
            throw fault(source, "holds the impossible shape " + tuple);
        }
    }

    /** Parses a dictionary, leaving its values as text. */
    private static final class Parser {
        private final String source;
        private final String text;
        private final Matcher tokens;
        private String token;

        Parser(String source, String text) {
            this.source = source;
            this.text = text;
            tokens = TOKEN.matcher(text);
            advance();
        }

        private void advance() {
            token = tokens.find() ? tokens.group(1) : "";
        }

        private String take(String pattern) {
            if (!token.matches(pattern)) {
                throw fault(source, "has a header that is malformed at \"" + token + "\": "
                        + text.strip().substring(0, Math.min(text.strip().length(), 200)));
            }
            String taken = token;
            advance();
            return taken;
        }

        /** Returns the three entries of a header. */
        Map<String, String> entries() {
            Map<String, String> entries = new HashMap<>();
            take("\\{");
            while (!token.equals("}")) {
                String key = take("['\"](descr|fortran_order|shape)['\"]");
                key = key.substring(1, key.length() - 1);
                take(":");
                String value = switch (key) {
                    case "descr" -> descr();
                    case "shape" -> tuple();
                    default -> take("\\w+");
                };
                if (entries.put(key, value) != null) {
                    throw fault(source, "has " + key + " twice in its header");
                }
                if (!token.equals("}")) {
                    take(",");
                }
            }
            int end = tokens.end();
            if (entries.size() != 3 || !text.substring(end).isBlank()) {
                throw fault(source, entries.size() != 3 ? "its header must have descr, fortran_order and shape, has "
                        + entries.keySet() : "its header continues after the closing brace");
            }
            return entries;
        }

        private String descr() {
            if (token.equals("[")) {
                throw new TensorException(TensorException.Problem.DATA, "read " + source, List.of(),
                        "holds records of named fields, not numbers", "save each field by itself, with "
                        + "numpy.save(file, array['name'])");
            }
            return take("['\"].*");
        }

        /**
         * Parses {@code ()}, {@code (3,)}, {@code (2, 3)} and returns it without blanks and without a trailing comma.
         */
        private String tuple() {
            StringBuilder sizes = new StringBuilder(take("\\("));
            int count = 0;
            boolean comma = false;
            while (!token.equals(")")) {
                if (count++ > 0 && !comma) {
                    take(",");
                }
                sizes.append(count > 1 ? "," : "").append(take("\\d{1,19}"));
                comma = token.equals(",");
                if (comma) {
                    advance();
                }
            }
            if (count == 1 && !comma) {
                throw fault(source, "its shape must be a tuple, as in (3,)");
            }
            return sizes.append(take("\\)")).toString();
        }
    }
}
