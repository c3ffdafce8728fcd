package dev.starling.tensor.conformance;

import dev.starling.tensor.DType;
import dev.starling.tensor.Device;
import dev.starling.tensor.Scope;
import dev.starling.tensor.cpu.OwnKernels;
import dev.starling.tensor.op.Contraction;
import dev.starling.tensor.op.Convolution;
import dev.starling.tensor.op.Op;
import dev.starling.tensor.op.Transfer;
import dev.starling.tensor.op.View;
import java.lang.reflect.Field;
import java.util.ArrayList;
import java.util.EnumSet;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.stream.Collectors;

/**
 * The table in {@code docs/ops.md}. What an operation does is the first sentence of its Javadoc; its types and the
 * CPU's own kernels are found by running its conformance cases; the operation itself states whether it has a gradient.
 */
final class OpsTable {
    private static final String HEAD = """
            # Operations
            Which operations exist, on which types, and which of them have a gradient and a fast CPU kernel.
            Generated from the operations' records and by running them; `OpsTableTest` fails when it is out of date.

            - **Types** are those of the first operand that is not a condition, or of the result if there is none.
            - **Gradient**: *fused* means that the gradient has a kernel of its own,
              which is used unless the gradient is itself differentiated.
            - **CPU kernels** are the types for which the CPU backend has a kernel of its own, at least for some layouts
              and geometries. If f32 is among them, bf16 and f16 use it, converted before and after. Everything else
              runs on the slower kernels of the `reference` device, which has all operations in all types.
            """;

    private OpsTable() {
    }

    /** What running the cases of an operation shows. */
    private record Findings(Op op, Set<DType> types, Set<DType> own) { }

    static String render(OpsSource source) {
        Map<Object, Findings> found = findings();
        Set<String> fused = found.values().stream().map(Findings::op).filter(o -> !o.differentiable()).map(Op::name)
                .collect(Collectors.toSet());
        StringBuilder text = new StringBuilder(HEAD);
        for (Map.Entry<Class<?>, List<Object>> family : families().entrySet()) {
            text.append("\n## ").append(family.getKey().getSimpleName()).append('\n');
            text.append(family.getKey().isRecord() ? "" : source.summary(family.getKey()) + "\n\n");
            text.append("| Operation | What it does | Types | Gradient | CPU kernels |\n");
            text.append("| --- | --- | --- | --- | --- |\n");
            for (Object leaf : family.getValue()) {
                Findings f = found.get(leaf);
                text.append("| `").append(f.op().name()).append("` | ").append(source.summary(leaf)).append(" | ")
                        .append(list(f.types())).append(" | ").append(gradient(f.op(), fused)).append(" | ")
                        .append(kernels(f)).append(" |\n");
            }
        }
        return text.toString();
    }

    /** Returns the definitions by the type that holds them; a record that none holds is its own family. */
    private static Map<Class<?>, List<Object>> families() {
        Map<Class<?>, List<Object>> families = new LinkedHashMap<>();
        ConformanceTest.definitions().forEach(leaf -> {
            Class<?> type = leaf instanceof Class<?> c ? c : null;
            Class<?> above = leaf instanceof Field f ? f.getDeclaringClass()
                    : type.getEnclosingClass() == null ? type : type.getEnclosingClass();
            families.computeIfAbsent(above, k -> new ArrayList<>()).add(leaf);
        });
        return families;
    }

    private static Map<Object, Findings> findings() {
        Map<Object, Findings> all = new LinkedHashMap<>();
        ConformanceCases.all().filter(OpsTable::isPlain).forEach(c -> {
            Op op = c.on(Device.cpu());
            Findings f = all.computeIfAbsent(ConformanceTest.definition(op), k -> new Findings(op,
                    EnumSet.noneOf(DType.class), EnumSet.noneOf(DType.class)));
            try (Scope scope = Scope.open("table")) {
                if (f.types().add(c.dtype())) {
                    c.run(Device.cpu());
                }
                if (!f.own().contains(c.dtype()) && OwnKernels.run(op, c.inputs(Device.cpu()))) {
                    f.own().add(c.dtype());
                }
            }
        });
        return all;
    }

    /** Returns whether a case is small, with operands in a plain layout; these cases suffice for the table. */
    private static boolean isPlain(Case c) {
        return c.operands().stream().allMatch(o -> o.shape().count() < 2000 && (o.layout() == Layout.DENSE
                || o.layout() == Layout.CHANNELS_LAST));
    }

    private static String gradient(Op op, Set<String> fused) {
        if (!op.differentiable()) {
            return "no";
        }
        return fused.contains(op.name() + "Gradient") ? "fused" : "yes";
    }

    private static String kernels(Findings f) {
        if (f.op() instanceof View) {
            return "none needed";
        }
        if (f.op() instanceof Transfer) {
            return "copy";
        }
        if (f.op() instanceof Contraction || f.op() instanceof Convolution) {
            // Instructions for 16-bit types depend on the processor, on which the table must not depend.
            Set<DType> wide = EnumSet.copyOf(f.own());
            wide.removeAll(Set.of(DType.BF16, DType.F16));
            return list(wide) + "; bf16 and f16 if the processor has instructions for them";
        }
        return f.own().isEmpty() ? "none" : f.own().equals(f.types()) ? "all" : list(f.own());
    }

    private static String list(Set<DType> types) {
        return types.size() == DType.values().length ? "all"
                : types.stream().map(DType::toString).collect(Collectors.joining(" "));
    }
}
