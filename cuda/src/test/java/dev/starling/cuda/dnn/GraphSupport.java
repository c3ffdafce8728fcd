package dev.starling.cuda.dnn;

import static org.bytedeco.cuda.global.cudnn.CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION;
import static org.bytedeco.cuda.global.cudnn.CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR;
import static org.bytedeco.cuda.global.cudnn.CUDNN_TYPE_CHAR;
import static org.bytedeco.cuda.global.cudnn.cudnnCreate;

import dev.starling.cuda.gpu.NvidiaGpu;
import dev.starling.cuda.kernels.AttentionCall;
import dev.starling.tensor.DType;
import dev.starling.tensor.Shape;
import dev.starling.tensor.op.Convolution;
import dev.starling.tensor.op.Epilogue;
import java.lang.foreign.Arena;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import org.bytedeco.cuda.cudnn.cudnnContext;

/**
 * Checks which of Starling's graphs NVIDIA's cuDNN supports, on the machine's first GPU or, without one, for a
 * description of an H200, and prints those for which it has no engine, with the reason.
 */
public final class GraphSupport {
    private static final String H200 = """
            {"deviceName": "NVIDIA H200", "deviceVer": 900, "driverVer": 13000, "cudaDeviceId": 0, "pciDeviceId": 0,
            "multiProcessorCount": 132, "smCountOrigin": 0, "warpSize": 32, "maxGridSize": [2147483647, 65535, 65535],
            "maxBlockSize": [1024, 1024, 64], "regsPerBlock": 65536, "maxRegistersPerSM": 65536, "maxCtasPerSM": 32,
            "maxThreadsPerBlock": 1024, "maxThreadsPerSM": 2048, "maxSharedMemoryPerBlock": 49152,
            "maxSharedMemoryPerBlockOptin": 232448, "reservedSharedMemoryPerBlock": 1024, "l2CacheSize": 62914560,
            "totalGlobalMem": 150000000000, "smClockRateKHz": 1980000, "memClockRateKHz": 3201000,
            "isTccDriver": 0, "supportCoopLaunch": 1}""";
    private static final DType[] TYPES = {DType.BF16, DType.F16, DType.F32};
    /** Images, channels, side, outputs, side of the kernel, stride, dilation and groups; padding preserves the side. */
    private static final int[][] CONVOLUTIONS = {{512, 3, 32, 64, 3, 1, 1, 1}, {512, 64, 32, 64, 3, 1, 1, 1},
        {512, 64, 32, 128, 3, 2, 1, 1}, {512, 64, 32, 128, 1, 2, 1, 1}, {512, 256, 8, 512, 3, 2, 1, 1},
        {64, 32, 28, 32, 3, 1, 1, 32}, {2, 4, 9, 6, 3, 1, 2, 2}, {128, 1, 28, 32, 3, 1, 1, 1}};
    /** Sequences, heads, queries, keys, width: multiples of 128 and of 64, other sizes, odd ones, few queries. */
    private static final long[][] ATTENTIONS = {{8, 12, 1024, 1024, 64}, {2, 4, 77, 131, 64}, {2, 3, 9, 9, 16},
        {8, 12, 1000, 300, 64}, {2, 4, 192, 192, 128}, {2, 4, 2, 1280, 64}, {1, 2, 2047, 2047, 128}};
    /** How many shapes of attention are checked, in bf16, without an argument: each graph takes seconds. */
    private static final int FEW = 2;

    private final GraphPlan.Target target;
    private int checked;
    private int refused;

    private GraphSupport(GraphPlan.Target target) {
        this.target = target;
    }

    private static GraphPlan.Target described() {
        try (Arena arena = Arena.ofConfined()) {
            return new GraphPlan.Target(null, Descriptor.make(new ArrayList<>(), CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR)
                    .set(CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION, CUDNN_TYPE_CHAR, H200.length(),
                            arena.allocateFrom(H200)).finish("device"));
        }
    }

    private static GraphPlan.Target first() {
        new NvidiaGpu(0).enter();
        cudnnContext handle = new cudnnContext();
        Descriptor.check(cudnnCreate(handle), "cudnnCreate");
        return new GraphPlan.Target(handle, null);
    }

    private void check(Record call, Graph graph, GraphPlan.Constraints constraints) {
        checked++;
        PlanCandidates candidates = PlanSearch.find(target, graph, constraints, 1, System.nanoTime());
        if (candidates.plans().isEmpty()) {
            refused++;
            System.out.println("no engine for " + graph.operations().size() + " operations of " + call + ": "
                    + candidates.description());
        }
        candidates.destroy();
    }

    private void convolutions(DType type) {
        for (int[] c : CONVOLUTIONS) {
            int padding = c[4] / 2;
            int out = (c[2] + 2 * padding - c[6] * (c[4] - 1) - 1) / c[5] + 1;
            Shape x = Shape.of(c[0], c[1], c[2], c[2]);
            Shape weight = Shape.of(c[3], c[1] / c[7], c[4], c[4]);
            Shape y = Shape.of(c[0], c[3], out, out);
            Convolution.Geometry geometry = Convolution.Geometry.of(2, c[5], padding, c[6], c[7]);
            for (Convolution op : List.of(new Convolution.Conv(geometry, Epilogue.NONE),
                    new Convolution.Conv(geometry, Epilogue.RELU), new Convolution.ConvInputGradient(geometry, x),
                    new Convolution.ConvWeightGradient(geometry, weight, false))) {
                for (boolean biased : op instanceof Convolution.Conv ? new boolean[] {false, true} : new boolean[1]) {
                    CudnnConvolution.Call call = new CudnnConvolution.Call(op, biased, type, x, weight, y);
                    check(call, CudnnConvolution.graph(call), CudnnConvolution.constraints(type == DType.F32, true));
                }
            }
        }
    }

    private void attentions(DType type, int shapes) {
        for (long[] n : Arrays.copyOf(ATTENTIONS, shapes)) {
            AttentionCall.Rows queries = new AttentionCall.Rows(n[1] * n[2] * n[4], n[4], n[1] * n[4]);
            AttentionCall.Rows keys = new AttentionCall.Rows(n[1] * n[3] * n[4], n[4], n[1] * n[4]);
            long row = Math.ceilDiv(n[3], 8L) * 8;
            AttentionCall.Rows ofHeads = new AttentionCall.Rows(n[1] * n[2] * row, n[2] * row, row);
            for (boolean causal : new boolean[] {false, true}) {
                for (AttentionCall.Rows mask : new AttentionCall.Rows[] {null, n[3] % 2 == 0
                        ? new AttentionCall.Rows(n[2] * row, 0, row) : ofHeads}) {
                    check(new AttentionCall(type, n[0], n[1], n[2], n[3], n[4], n[4], 0.125f, causal, queries, keys,
                            keys, queries, queries, mask));
                }
            }
        }
    }

    private void check(AttentionCall call) {
        GraphPlan.Constraints deterministic = new GraphPlan.Constraints(true, false, 1L << 28);
        GraphPlan.Constraints nondeterministic = new GraphPlan.Constraints(false, false, 1L << 28);
        check(call, AttentionGraph.forward(call), deterministic);
        for (boolean padded : call.causal() && call.mask() == null ? new boolean[] {false, true}
                : new boolean[] {true}) {
                    check(call, AttentionGraph.backward(call, true, padded), deterministic);
                    check(call, AttentionGraph.backward(call, false, padded), nondeterministic);
        }
    }

    /** Runs the command, with an argument for all graphs; the exit code is 0 if there is an engine for each of them. */
    public static void main(String[] arguments) {
        boolean real = Files.exists(Path.of("/dev/nvidiactl"));
        GraphSupport all = new GraphSupport(real ? first() : described());
        long begin = System.nanoTime();
        System.out.println("cuDNN " + Cudnn.versionText() + " " + Cudnn.fault());
        for (DType type : TYPES) {
            all.convolutions(type);
            if (type != DType.F32) {
                all.attentions(type, arguments.length > 0 ? ATTENTIONS.length : type == DType.BF16 ? FEW : 0);
            }
        }
        System.out.printf("%d graphs checked with cuDNN %s for %s in %d s, %d refused%n", all.checked,
                Cudnn.versionText(), real ? NvidiaGpu.describe(0) : "a described H200",
                (System.nanoTime() - begin) / 1_000_000_000, all.refused);
        System.exit(all.refused == 0 ? 0 : 1);
    }
}
