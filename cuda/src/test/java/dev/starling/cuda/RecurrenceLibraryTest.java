package dev.starling.cuda;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;
import static org.bytedeco.cuda.global.cudnn.CUDNN_STATUS_EXECUTION_FAILED_CUDART;

import dev.starling.cuda.emulated.Emulation;
import dev.starling.cuda.emulated.FakeLibraries;
import dev.starling.cuda.gpu.Gpu;
import dev.starling.tensor.DType;
import dev.starling.tensor.Device;
import dev.starling.tensor.Generator;
import dev.starling.tensor.Scope;
import dev.starling.tensor.Shape;
import dev.starling.tensor.Spec;
import dev.starling.tensor.Tensor;
import dev.starling.tensor.TensorException;
import dev.starling.tensor.op.Recurrence;
import dev.starling.tensor.program.Program;
import java.lang.reflect.Proxy;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.condition.EnabledIf;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** Recurrent layers that a library trains: its reserve for gradients and how it is used. The CPU is the oracle. */
@EnabledIf(value = "dev.starling.cuda.emulated.FakeLibraries#areAvailable",
        disabledReason = "needs g++ on Linux on x86-64, and no NVIDIA driver")
class RecurrenceLibraryTest {
    private static final Device FAKE = Device.of("cuda-emulated", 1);

    @AfterEach
    void librariesReportNoMisuse() {
        FakeLibraries.failToRunLayers(0, 0);
        assertThat(FakeLibraries.firstMisuse()).isEmpty();
    }

    private static List<Recurrence.Forward> layers() {
        return List.of(new Recurrence.Lstm(false, true), new Recurrence.Lstm(true, true),
                new Recurrence.Gru(false, true), new Recurrence.Gru(true, true),
                new Recurrence.Rnn(false, false, true), new Recurrence.Rnn(true, true, true));
    }

    /**
     * The library overwrites its reserve: a second call, for the same or fewer gradients, must give the same values.
     */
    @Test
    void computesGradientsRepeatedly() {
        for (Recurrence.Forward op : layers()) {
            try (Scope scope = Scope.open()) {
                Tensor[] in = operands(op, FAKE, 4, 3, 6, 5);
                long before = FakeLibraries.computed();
                Tensor[] out = Tensor.apply(op, in);
                Tensor[] gradients = gradients(op, true, in, out);
                assertThat(FakeLibraries.computed() - before).as("%s", op).isEqualTo(2);
                assertThat(out[out.length - 1].dtype()).isEqualTo(DType.U8);
                close(gradients(op, true, in, out), gradients, 0);
                Tensor[] fewer = gradients(op, false, in, out);
                close(Arrays.copyOfRange(fewer, 1, fewer.length), Arrays.copyOfRange(gradients, 1, gradients.length),
                        0);
                Tensor[] host = operands(op, Device.cpu(), 4, 3, 6, 5);
                Tensor[] expected = Tensor.apply(op, host);
                close(Arrays.copyOf(out, out.length - 1), Arrays.copyOf(expected, out.length - 1), 1e-5);
                close(gradients, gradients(op, true, host, expected), 1e-4);
            }
        }
    }

    /** Both passes in one program, whose memory is shared by tensors that are not live at the same time. */
    @Test
    void trainsInPrograms() {
        for (Recurrence.Forward op : layers()) {
            try (Scope scope = Scope.open()) {
                Tensor[] in = operands(op, FAKE, 4, 3, 6, 5);
                Tensor[] incoming = incoming(Tensor.apply(op, in));
                Program.Work work = x -> gradients(op, true, x, Tensor.apply(op, x), incoming);
                Tensor[] expected = work.run(in);
                try (Program program = Program.capture(null, work, in).program()) {
                    close(program.run(in), expected, 0);
                }
            }
        }
    }

    /** Many sequence lengths: the state of the first call is evicted, and its reserve is not read any more. */
    @Test
    void computesGradientsOfEvictedCalls() {
        try (Scope scope = Scope.open()) {
            Recurrence.Forward op = new Recurrence.Gru(false, true);
            Tensor[] in = operands(op, FAKE, 4, 3, 6, 5);
            Tensor[] out = Tensor.apply(op, in);
            Tensor[] gradients = gradients(op, true, in, out);
            for (int batch = 1; batch <= 8; batch++) {
                for (int steps = 10; steps < 145; steps++) {
                    try (Scope each = Scope.open()) {
                        Tensor[] other = in.clone();
                        other[0] = Tensor.zeros(steps, batch, 6).to(FAKE);
                        other[1] = Tensor.zeros(batch, 5).to(FAKE);
                        Tensor.apply(op, other);
                    }
                }
            }
            close(gradients(op, true, in, out), gradients, 1e-5);
            close(gradients(op, true, in, Tensor.apply(op, in)), gradients, 0);
        }
    }

    /** The library offers two algorithms; with 16 units it refuses the first when it runs, with 17 inputs both. */
    @Test
    void destroysWhatTheLibraryRefuses() {
        Recurrence.Forward op = new Recurrence.Lstm(false, true);
        try (Scope scope = Scope.open()) {
            long before = FakeLibraries.layers();
            Tensor.apply(op, operands(op, FAKE, 3, 2, 6, 9));
            long perPlan = (FakeLibraries.layers() - before) / 2;
            assertThat(perPlan).isPositive();
            before = FakeLibraries.layers();
            Tensor.apply(op, operands(op, FAKE, 3, 2, 6, 16));
            assertThat(FakeLibraries.layers() - before).isEqualTo(perPlan);
            before = FakeLibraries.layers();
            Tensor.apply(op, operands(op, FAKE, 3, 2, 17, 9));
            assertThat(FakeLibraries.layers() - before).isZero();
        }
    }

    /** There is only one algorithm for so many units. The library may find no memory when it plans and runs it. */
    @Test
    void triesAgainAfterMemoryWasFreed() {
        Recurrence.Forward op = new Recurrence.Lstm(false, true);
        try (Scope scope = Scope.open()) {
            Tensor[] in = operands(op, FAKE, 3, 2, 4, 130);
            long before = FakeLibraries.computed();
            failOnce();
            Tensor[] out = Tensor.apply(op, in);
            assertThat(out[out.length - 1].dtype()).isEqualTo(DType.U8);
            failOnce();
            Tensor[] gradients = gradients(op, true, in, out);
            failOnce();
            close(Tensor.apply(op, in)[0].toDoubles(), out[0].toDoubles(), 0);
            assertThat(FakeLibraries.computed() - before).isEqualTo(3);
            Tensor[] host = operands(op, Device.cpu(), 3, 2, 4, 130);
            close(gradients, gradients(op, true, host, Tensor.apply(op, host)), 1e-4);
        }
    }

    private static void failOnce() {
        FakeLibraries.failToRunLayers(CUDNN_STATUS_EXECUTION_FAILED_CUDART, 1);
    }

    @Test
    void usesOwnKernelsAfterTheLibraryFailed() {
        Recurrence.Forward op = new Recurrence.Lstm(false, true);
        try (Scope scope = Scope.open()) {
            Tensor[] in = operands(op, FAKE, 3, 2, 7, 11);
            Tensor[] first = Tensor.apply(op, in);
            FakeLibraries.failToRunLayers(CUDNN_STATUS_EXECUTION_FAILED_CUDART, 2);
            Tensor[] out = Tensor.apply(op, in);
            Tensor[] host = operands(op, Device.cpu(), 3, 2, 7, 11);
            Tensor[] expected = Tensor.apply(op, host);
            close(Arrays.copyOf(out, out.length - 1), Arrays.copyOf(expected, out.length - 1), 1e-5);
            Tensor[] gradients = gradients(op, true, host, expected);
            close(gradients(op, true, in, out), gradients, 1e-4);
            close(gradients(op, true, in, first), gradients, 1e-4);
        }
    }

    /** The device has memory for the workspace of cuBLASLt only, at first or once the layer has run. */
    @ParameterizedTest
    @ValueSource(booleans = {false, true})
    void usesOwnKernelsWithoutMemoryForTheLibrarysWorkspace(boolean ran) {
        Gpu gpu = Emulation.gpu();
        boolean[] full = {!ran};
        Gpu small = (Gpu) Proxy.newProxyInstance(Gpu.class.getClassLoader(), new Class<?>[] {Gpu.class},
                (proxy, method, arguments) -> full[0] && method.getName().equals("allocate")
                        && (long) arguments[0] < 32 << 20 ? 0L : method.invoke(gpu, arguments));
        CudaBackend backend = new CudaBackend(FAKE, small, Libraries::nvidia);
        Recurrence.Forward op = new Recurrence.Lstm(false, true);
        try (Scope scope = Scope.open()) {
            Tensor[] in = operands(op, FAKE, 3, 2, 5, 7);
            Tensor[] out = run(backend, op, in);
            full[0] = true;
            backend.memory().trim();
            Tensor[] back = gradientOperands(in, out, incoming(out));
            Tensor[] gradients = run(backend, op.gradient(true), back);
            Tensor[] host = operands(op, Device.cpu(), 3, 2, 5, 7);
            Tensor[] expected = Tensor.apply(op, host);
            close(Arrays.copyOf(out, out.length - 1), Arrays.copyOf(expected, out.length - 1), 1e-5);
            close(gradients, gradients(op, true, host, expected), 1e-4);
        }
    }

    private static Tensor[] run(CudaBackend backend, Recurrence op, Tensor[] in) {
        return backend.run(op, in, op.infer(Arrays.stream(in).map(Tensor::spec).toArray(Spec[]::new)));
    }

    @Test
    void usesOwnKernelsForSequencesWithLengths() {
        try (Scope scope = Scope.open()) {
            Recurrence.Forward op = new Recurrence.Gru(false, true);
            List<Tensor> in = new ArrayList<>(List.of(operands(op, FAKE, 4, 3, 6, 5)));
            in.add(Tensor.of(new long[] {4, 2, 1}).to(FAKE));
            long before = FakeLibraries.computed();
            Tensor[] out = Tensor.apply(op, in.toArray(Tensor[]::new));
            assertThat(out[2].shape()).isEqualTo(Shape.of(4, 3, 20));
            assertThat(FakeLibraries.computed()).as("products alone").isEqualTo(before + 5);
        }
    }

    @Test
    void doesNotReadTheReserveOfAnotherDevice() {
        try (Scope scope = Scope.open()) {
            Recurrence.Forward op = new Recurrence.Lstm(false, true);
            Tensor[] out = Tensor.apply(op, operands(op, FAKE, 4, 3, 6, 5));
            Tensor[] moved = Arrays.stream(out).map(t -> t.to(Device.cpu())).toArray(Tensor[]::new);
            Tensor[] in = operands(op, Device.cpu(), 4, 3, 6, 5);
            assertThatThrownBy(() -> gradients(op, true, in, moved)).isInstanceOf(TensorException.class)
                    .hasMessageContaining("same type");
        }
    }

    private static Tensor[] gradients(Recurrence.Forward op, boolean input, Tensor[] in, Tensor[] out) {
        return gradients(op, input, in, out, incoming(out));
    }

    /** Returns gradients of all results except the reserve. */
    private static Tensor[] incoming(Tensor[] out) {
        Tensor[] gradients = new Tensor[out.length - 1];
        Arrays.setAll(gradients, i -> random(20 + i, out[i].device(), out[i].shape().dims()));
        return gradients;
    }

    private static Tensor[] gradients(Recurrence.Forward op, boolean input, Tensor[] in, Tensor[] out,
            Tensor[] incoming) {
        return Tensor.apply(op.gradient(input), gradientOperands(in, out, incoming));
    }

    private static Tensor[] gradientOperands(Tensor[] in, Tensor[] out, Tensor[] incoming) {
        List<Tensor> all = new ArrayList<>(List.of(incoming));
        all.add(out[0]);
        all.add(out[out.length - 1]);
        all.addAll(List.of(in));
        return all.toArray(Tensor[]::new);
    }

    /** Returns the operands; sizes are steps, batch, inputs and units. */
    private static Tensor[] operands(Recurrence.Forward op, Device device, long... s) {
        long rows = op.cell().gates() * s[3];
        List<Tensor> all = new ArrayList<>(List.of(random(1, device, s[0], s[1], s[2])));
        for (int i = 0; i < (op.cell() == Recurrence.Cell.LSTM ? 2 : 1); i++) {
            all.add(random(2 + i, device, s[1], s[3]));
        }
        all.addAll(List.of(random(4, device, rows, s[2]), random(5, device, rows, s[3]), random(6, device, rows),
                random(7, device, rows)));
        return all.toArray(Tensor[]::new);
    }

    private static Tensor random(long seed, Device device, long... shape) {
        return Generator.seeded(seed).normal(new Spec(DType.F32, Shape.of(shape), Device.cpu()), 0, 0.5).to(device);
    }

    private static void close(Tensor[] actual, Tensor[] expected, double tolerance) {
        assertThat(actual.length).isEqualTo(expected.length);
        for (int i = 0; i < expected.length; i++) {
            close(actual[i].toDoubles(), expected[i].toDoubles(), tolerance);
        }
    }

    private static void close(double[] actual, double[] expected, double tolerance) {
        assertThat(actual.length).isEqualTo(expected.length);
        for (int k = 0; k < expected.length; k++) {
            assertThat(Math.abs(actual[k] - expected[k])).isLessThanOrEqualTo(tolerance * (1 + Math.abs(expected[k])));
        }
    }
}
