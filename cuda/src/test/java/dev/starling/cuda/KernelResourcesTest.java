package dev.starling.cuda;

import static org.assertj.core.api.Assertions.assertThat;

import dev.starling.cuda.compile.KernelSource;
import dev.starling.cuda.gpu.GpuException;
import dev.starling.cuda.gpu.Nvrtc;
import java.util.ArrayList;
import java.util.List;
import java.util.Queue;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.condition.EnabledIf;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/**
 * The resources that kernels need of a multiprocessor on users' architectures: blocks must fit, and spills to memory
 * are bounded. The compiler needs no GPU. {@code -Dstarling.conformance=…} selects kernels as for the conformance
 * suite.
 */
@Tag("stress")
@EnabledIf(value = "dev.starling.cuda.gpu.Nvrtc#isAvailable",
        disabledReason = "needs libnvrtc.so.13: the profile stress provides org.bytedeco:cuda-redist")
class KernelResourcesTest {
    /** One computation type of each kind, and kernels that are specific to 16 bits. */
    private static final String SAMPLE = "f32$|^(matmul|linear|conv|attention|scaledDot|softmax|logSoftmax|layerNorm"
            + "|batchNorm|crossEntropy|sum|mean|adam|sgd|concat|take|maxPool|avgPool|lstm|gru)[A-Za-z0-9]* bf16$";

    private static final int REGISTERS = 65_536;
    /** Registers are assigned to a warp in units of 8 for each thread. */
    private static final int PIECE = 8;
    /** The block size of a kernel without launch bounds; the emulator refuses more. */
    private static final int THREADS = 256;
    private static final Pattern ENTRY = Pattern.compile("Compiling entry function '(\\w+)'(.*?)Used (\\d+) registers",
            Pattern.DOTALL);
    private static final Pattern SPILLS = Pattern.compile("(\\d+) bytes spill stores, (\\d+) bytes spill loads");

    /**
     * Kernels that may spill: a pattern of source and kernel name, the architecture, and the bytes of stores and loads
     * together. No other kernel may spill.
     */
    private record Allowed(String kernel, String architecture, int bytes) { }

    /** Measured with NVRTC 13.1, plus a tenth for later versions. */
    private static final List<Allowed> ALLOWED = List.of(
            new Allowed("attention_gradient.*T=bf16.*CHUNKS=2> key_gradients", "sm_75", 616),
            new Allowed("attention_gradient.*T=bf16.*CHUNKS=2> key_gradients", "sm_80", 462),
            new Allowed("attention_gradient.*T=bf16.*CHUNKS=2> key_gradients", "sm_90", 475),
            new Allowed("attention_gradient.*T=f32.*CHUNKS=1> query_gradients", "sm_90", 92),
            new Allowed("attention_gradient.*T=bf16.*CHUNKS=1> query_gradients", "sm_90", 66),
            new Allowed("attention\\..*T=bf16.*CHUNKS=1> attention", "sm_90", 114));

    private final Queue<String> faults = new ConcurrentLinkedQueue<>();
    private final Queue<String> compiled = new ConcurrentLinkedQueue<>();

    @ParameterizedTest
    @ValueSource(strings = {"sm_75", "sm_80", "sm_90", "sm_100"})
    @Timeout(3600)
    void fitsOnAMultiprocessorWithoutSpilling(String architecture) {
        Nvrtc compiler = new Nvrtc();
        Pattern tests = Pattern.compile(System.getProperty("starling.conformance", SAMPLE));
        List<KernelSource> sources = new ArrayList<>();
        KernelInventory.list(tests.asPredicate(), true, source -> { }).forEach(sources::add);
        try (ExecutorService pool = Executors.newFixedThreadPool(Runtime.getRuntime().availableProcessors())) {
            sources.forEach(source -> pool.submit(() -> check(compiler, source, architecture)));
        }
        assertThat(faults).isEmpty();
        assertThat(compiled.size()).isGreaterThanOrEqualTo(sources.size()).isPositive();
    }

    private void check(Nvrtc compiler, KernelSource source, String architecture) {
        String report;
        try {
            report = compiler.report(source.name(), source.text(), architecture);
        } catch (GpuException e) {
            faults.add(e.getMessage());
            return;
        }
        Matcher entry = ENTRY.matcher(report);
        int found = 0;
        while (entry.find()) {
            found++;
            String kernel = source.name() + " " + entry.group(1) + " for " + architecture;
            compiled.add(kernel);
            int registers = (Integer.parseInt(entry.group(3)) + PIECE - 1) / PIECE * PIECE;
            int threads = threads(source.text(), entry.group(1));
            if (registers * threads > REGISTERS) {
                faults.add(kernel + ": " + registers + " registers for each of " + threads + " threads");
            }
            Matcher spills = SPILLS.matcher(entry.group(2));
            int bytes = spills.find() ? Integer.parseInt(spills.group(1)) + Integer.parseInt(spills.group(2)) : 0;
            if (bytes > allowed(source.name(), entry.group(1), architecture)) {
                faults.add(kernel + ": " + bytes + " bytes of spills");
            }
        }
        if (found == 0) {
            faults.add(source.name() + " for " + architecture + ": no kernel in the report " + report);
        }
    }

    private static int allowed(String source, String kernel, String architecture) {
        return ALLOWED.stream().filter(a -> (source + " " + kernel).matches(a.kernel)
                && a.architecture.equals(architecture)).mapToInt(Allowed::bytes).max().orElse(0);
    }

    /** Returns the largest number of threads of a block, from the kernel's launch bounds. */
    private static int threads(String source, String kernel) {
        Matcher bounds = Pattern.compile("__launch_bounds__\\(([^)]*)\\) " + kernel + "\\(").matcher(source);
        if (!bounds.find()) {
            return THREADS;
        }
        return switch (bounds.group(1)) {
            case "BLOCK" -> macro(source, "GROUP") == 32 ? THREADS : macro(source, "GROUP");
            case "RUN / 2" -> macro(source, "RUN") / 2;
            default -> Integer.parseInt(bounds.group(1));
        };
    }

    private static int macro(String source, String name) {
        Matcher value = Pattern.compile("#define " + name + " (\\d+)").matcher(source);
        assertThat(value.find()).as(name).isTrue();
        return Integer.parseInt(value.group(1));
    }
}
