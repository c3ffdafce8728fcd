package dev.starling.cuda.kernels;

import static org.assertj.core.api.Assertions.assertThat;

import dev.starling.cuda.compile.KernelCompiler;
import dev.starling.cuda.gpu.QueuedGpu;
import dev.starling.tensor.Device;
import dev.starling.tensor.Scope;
import dev.starling.tensor.Shape;
import dev.starling.tensor.Tensor;
import dev.starling.tensor.op.Selection;
import dev.starling.tensor.op.Sorting;
import java.nio.file.Path;
import java.util.Map;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** Operands with more lines or indices than kernels can number are left to the host. */
class KernelLimitsTest {
    private static final long MANY = 1L << 31;

    @TempDir
    private Path folder;

    @Test
    void declinesWhatItCannotNumber() {
        QueuedGpu gpu = new QueuedGpu(1 << 20);
        Launcher launcher = new Launcher(gpu, new KernelCompiler(gpu.compiler(), "sm_90", folder));
        SortingKernels sorting = new SortingKernels(launcher);
        SelectionKernels selection = new SelectionKernels(launcher, sorting);
        try (Scope scope = Scope.open()) {
            Tensor lines = Device.with(Device.reference(), () -> Tensor.zeros(1, 1)).expand(Shape.of(MANY, 2));
            assertThat(sorting.compute(new Sorting.Sort(1, false), new Tensor[] {lines}, new Tensor[] {lines, lines}))
                    .isSameAs(Answer.TOO_LARGE);
            Tensor first = Device.with(Device.reference(), () -> Tensor.of(new long[] {0}));
            Tensor index = first.expand(Shape.of(MANY));
            Tensor wide = lines.transpose(0, 1);
            Map<Selection, Tensor[]> calls = Map.of(new Selection.Take(1), new Tensor[] {wide, index},
                    new Selection.Take(0), new Tensor[] {wide, first},
                    new Selection.TakeGradient(0, 2), new Tensor[] {lines, index},
                    new Selection.TakeGradient(0, 1), new Tensor[] {wide, first},
                    new Selection.Scatter(0), new Tensor[] {index, index, index},
                    new Selection.ScatterAdd(1), new Tensor[] {lines, lines, lines});
            calls.forEach((op, in) -> assertThat(selection.compute(op, in, new Tensor[] {in[0]})).as("%s", op)
                    .isSameAs(Answer.TOO_LARGE));
        }
        assertThat(gpu.launches()).isEmpty();
    }
}
