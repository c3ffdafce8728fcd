package dev.starling.nn;

import dev.starling.tensor.TensorException;
import java.lang.reflect.ParameterizedType;
import java.lang.reflect.Type;
import java.lang.reflect.TypeVariable;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.jspecify.annotations.Nullable;

/** Reads the types of a model's inputs and results from the declaration of its class. */
final class ModelTypes {
    private static final ClassValue<Type[]> ARGUMENTS = new ClassValue<>() {
        @Override
        protected Type[] computeValue(Class<?> type) {
            Type[] found = find(type, Map.of());
            return found == null ? new Type[2] : found;
        }
    };

    private ModelTypes() {
    }

    /** Returns the record that is an argument of {@link Model} in the declaration of a model's class. */
    @SuppressWarnings("unchecked")
    static <R extends Record> RecordType<R> argument(Model<?, ?> model, int index) {
        Type argument = ARGUMENTS.get(model.getClass())[index];
        if (argument instanceof Class<?> type && type.isRecord()) {
            return RecordType.of((Class<R>) type);
        }
        throw TensorException.argument("model", model.describe() + " does not declare the record of its "
                + (index == 0 ? "inputs" : "results"), "declare the class with implements Model<Input, Output>, or "
                + "override inputs() and outputs() with RecordType.of(..)");
    }

    /** Returns the arguments of {@link Model} as a type inherits it, or {@code null} if it does not. */
    private static Type @Nullable [] find(Class<?> type, Map<Type, Type> known) {
        List<Type> above = new ArrayList<>(Arrays.asList(type.getGenericInterfaces()));
        if (type.getGenericSuperclass() != null) {
            above.add(type.getGenericSuperclass());
        }
        for (Type each : above) {
            Class<?> raw = raw(each);
            Type[] arguments = each instanceof ParameterizedType p ? p.getActualTypeArguments() : new Type[0];
            for (int i = 0; i < arguments.length; i++) {
                arguments[i] = known.getOrDefault(arguments[i], arguments[i]);
            }
            if (raw == Model.class && arguments.length == 2) {
                return new Type[] {raw(arguments[0]), raw(arguments[1])};
            }
            Map<Type, Type> next = new HashMap<>();
            TypeVariable<?>[] variables = raw.getTypeParameters();
            for (int i = 0; i < arguments.length; i++) {
                next.put(variables[i], arguments[i]);
            }
            Type[] found = find(raw, next);
            if (found != null) {
                return found;
            }
        }
        return null;
    }

    private static Class<?> raw(Type type) {
        return type instanceof Class<?> c ? c : type instanceof ParameterizedType p ? (Class<?>) p.getRawType()
                : Object.class;
    }
}
