package dev.starling.nn;

import dev.starling.tensor.TensorException;
import java.lang.invoke.MethodHandle;
import java.lang.invoke.MethodHandles;
import java.lang.invoke.MethodType;
import java.lang.reflect.Constructor;
import java.lang.reflect.InaccessibleObjectException;
import java.lang.reflect.Method;
import java.lang.reflect.RecordComponent;
import java.util.ArrayList;
import java.util.List;
import org.jspecify.annotations.Nullable;

/** Reads components of records and creates records, also those that are private or local to a method. */
final class RecordParts {
    /** The components of a module that are modules or parameters. */
    private static final ClassValue<List<Part>> PARTS = new ClassValue<>() {
        @Override
        protected List<Part> computeValue(Class<?> type) {
            List<Part> parts = new ArrayList<>();
            for (RecordComponent each : components(type)) {
                if (Module.class.isAssignableFrom(each.getType()) || each.getType() == Parameter.class) {
                    parts.add(new Part(each.getName(), reader(each)));
                }
            }
            return parts;
        }
    };

    /** A component and what reads it. */
    private record Part(String name, MethodHandle reader) { }

    private RecordParts() {
    }

    private static RecordComponent[] components(Class<?> type) {
        RecordComponent[] components = type.getRecordComponents();
        return components == null ? new RecordComponent[0] : components;
    }

    static boolean hasParts(Class<?> type) {
        return !PARTS.get(type).isEmpty();
    }

    /** Passes the components of a module that are modules or parameters to a visitor. */
    static void visit(Record module, Module.Visitor visitor) {
        for (Part part : PARTS.get(module.getClass())) {
            Object value = read(part.reader, module);
            if (value instanceof Parameter parameter) {
                visitor.parameter(part.name, parameter);
            } else if (value instanceof Module inner) {
                visitor.layer(part.name, inner);
            }
        }
    }

    /** Returns what reads a component: {@code (Object) -> Object}. */
    static MethodHandle reader(RecordComponent component) {
        Method accessor = component.getAccessor();
        try {
            accessor.setAccessible(true);
            return MethodHandles.lookup().unreflect(accessor).asType(MethodType.genericMethodType(1));
        } catch (IllegalAccessException | InaccessibleObjectException e) {
            throw inaccessible(component.getDeclaringRecord(), e);
        }
    }

    /** Returns what creates a record of the given number of components: {@code (Object[]) -> Object}. */
    static MethodHandle creator(Class<? extends Record> type, Class<?>... components) {
        try {
            Constructor<?> constructor = type.getDeclaredConstructor(components);
            constructor.setAccessible(true);
            return MethodHandles.lookup().unreflectConstructor(constructor).asSpreader(Object[].class,
                    components.length).asType(MethodType.methodType(Object.class, Object[].class));
        } catch (ReflectiveOperationException | InaccessibleObjectException e) {
            throw inaccessible(type, e);
        }
    }

    /** Returns the value of a component. */
    static @Nullable Object read(MethodHandle reader, Record from) {
        try {
            return (Object) reader.invokeExact((Object) from);
        } catch (RuntimeException | Error e) {
            throw e;
        } catch (Throwable e) {
            throw new AssertionError("the accessor of a record throws no checked exception", e);
        }
    }

    /** Returns a copy of a record in which one component has another value. */
    static Record with(Record record, String name, Module replacement) {
        RecordComponent[] components = components(record.getClass());
        Class<?>[] types = new Class<?>[components.length];
        Object[] values = new Object[components.length];
        for (int i = 0; i < components.length; i++) {
            types[i] = components[i].getType();
            values[i] = read(reader(components[i]), record);
            if (components[i].getName().equals(name)) {
                if (!types[i].isInstance(replacement)) {
                    throw TensorException.argument("replace", name + " is a " + types[i].getSimpleName() + ", not a "
                            + replacement.describe(), "declare the component as a Layer");
                }
                values[i] = replacement;
            }
        }
        try {
            return (Record) (Object) creator(record.getClass(), types).invokeExact(values);
        } catch (RuntimeException | Error e) {
            throw e;
        } catch (Throwable e) {
            throw TensorException.argument("replace", "the constructor of " + record.getClass().getName()
                    + " has thrown " + e, "see its code");
        }
    }

    private static TensorException inaccessible(Class<?> type, Exception cause) {
        TensorException e = TensorException.argument("record", type.getName() + " is not accessible to dev.starling.nn",
                "make it public in an exported package, or open its package in module-info.java: opens "
                + type.getPackageName() + " to dev.starling.nn");
        e.initCause(cause);
        return e;
    }
}
