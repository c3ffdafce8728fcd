package dev.starling.tensor.conformance;

import dev.starling.tensor.DType;
import dev.starling.tensor.Device;
import dev.starling.tensor.Scope;
import dev.starling.tensor.Tensor;
import dev.starling.tensor.op.Recurrence;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.function.Function;
import java.util.stream.Stream;
import org.junit.jupiter.api.Assertions;
import org.junit.jupiter.api.DynamicTest;

/**
 * The contract of a backend: each operation gives the results of the reference device, within {@link Tolerance}, for
 * every type that it supports, sizes around the vector width, strided and broadcast operands and special values. The
 * same holds for gradients; bad indices are errors. A backend's module runs it with
 * {@code @TestFactory Stream<DynamicTest> conforms() { return Conformance.of(device); }}.
 */
public final class Conformance {
    private Conformance() {
    }

    /** Returns one test for each operation and type, for values and for gradients, on {@code device}. */
    public static Stream<DynamicTest> of(Device device) {
        Stream<DynamicTest> values = grouped(ConformanceCases.all(), "", c -> values(c, device));
        Stream<DynamicTest> gradients = grouped(ConformanceCases.all().filter(Case::hasGradient), "gradient of ",
                c -> gradients(c, device));
        return Stream.of(values, gradients, KnownValues.on(device), BadIndices.on(device)).flatMap(s -> s);
    }

    /**
     * Groups cases by operation and type; a group fails with the messages of all its cases. The first case is repeated
     * with operands that do not start at the beginning of their memory.
     */
    static Stream<DynamicTest> grouped(Stream<Case> cases, String prefix, Function<Case, String> check) {
        Map<String, List<Case>> groups = new LinkedHashMap<>();
        cases.forEach(c -> groups.computeIfAbsent(c.group(), k -> new ArrayList<>()).add(c));
        groups.values().forEach(group -> group.stream().filter(Case::isDense).findFirst()
                .ifPresent(c -> group.add(c.in(Layout.LATER))));
        return groups.entrySet().stream().map(e -> DynamicTest.dynamicTest(prefix + e.getKey(), () -> {
            List<String> failures = new ArrayList<>();
            for (Case c : e.getValue()) {
                try (Scope scope = Scope.open(c.group())) {
                    String difference = check.apply(c);
                    if (difference != null) {
                        failures.add(c + ": " + difference);
                    }
                } catch (RuntimeException | AssertionError x) {
                    failures.add(c + ": " + x + " at " + x.getStackTrace()[0]);
                }
            }
            if (!failures.isEmpty()) {
                Assertions.fail(failures.size() + " of " + e.getValue().size() + " cases:\n"
                        + String.join("\n", failures));
            }
        }));
    }

    private static String values(Case c, Device device) {
        Tensor[] actual = c.run(device);
        Tensor[] expected = c.run(Device.reference());
        if (c.on(device) instanceof Recurrence.Forward && actual[actual.length - 1].dtype() == DType.U8) {
            // Values that a layer keeps in a device's own format are compared through its gradients only.
            actual[actual.length - 1] = null;
            expected[expected.length - 1] = null;
        }
        return difference(c.tolerance(), actual, expected);
    }

    private static String gradients(Case c, Device device) {
        return difference(c.tolerance().ofGradient(), c.gradients(device, false),
                c.gradients(Device.reference(), false));
    }

    /** Returns the first difference between two lists of tensors in words, or {@code null} if there is none. */
    static String difference(Tolerance tolerance, Tensor[] actual, Tensor[] expected) {
        if (actual.length != expected.length) {
            return actual.length + " results instead of " + expected.length;
        }
        for (int i = 0; i < expected.length; i++) {
            if (actual[i] == null || expected[i] == null) {
                if (actual[i] != expected[i]) {
                    return "result " + i + " is " + actual[i] + " instead of " + expected[i];
                }
                continue;
            }
            String difference = tolerance.difference(actual[i], expected[i]);
            if (difference != null) {
                return "result " + i + " " + difference;
            }
        }
        return null;
    }
}
