package dev.starling.tensor.conformance;

import dev.starling.tensor.fuzz.ApiFuzz;
import dev.starling.tensor.op.FormulaOp;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.lang.reflect.Field;
import java.lang.reflect.Modifier;
import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.stream.Collectors;

/** The operations that are constants of their families. */
public final class FormulaOps {
    private static final Map<FormulaOp, Field> FIELDS = find();

    private FormulaOps() { }

    /** Returns the operations, each with the field that holds it. */
    public static Map<FormulaOp, Field> fields() {
        return FIELDS;
    }

    private static Map<FormulaOp, Field> find() {
        try {
            return ApiFuzz.types(FormulaOp.class).stream().flatMap(type -> Arrays.stream(type.getDeclaredFields()))
                    .filter(f -> f.getType() == FormulaOp.class && Modifier.isStatic(f.getModifiers()))
                    .collect(Collectors.toMap(FormulaOps::value, f -> f, (a, b) -> a, LinkedHashMap::new));
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
    }

    private static FormulaOp value(Field field) {
        try {
            return (FormulaOp) field.get(null);
        } catch (IllegalAccessException e) {
            throw new AssertionError(e);
        }
    }
}
