package dev.starling.cuda.known;

import static dev.starling.cuda.known.LibraryFault.Library.CUBLASLT;
import static dev.starling.cuda.known.LibraryFault.Library.CUDNN;
import static dev.starling.cuda.known.LibraryFault.Remedy.DECLINE;
import static dev.starling.cuda.known.LibraryFault.Remedy.PAD;
import static dev.starling.cuda.known.LibraryFault.UNFIXED;

import dev.starling.cuda.known.LibraryFault.Library;
import dev.starling.cuda.known.LibraryFault.Remedy;
import dev.starling.tensor.DType;
import java.util.List;
import java.util.function.Predicate;
import org.jspecify.annotations.Nullable;

/**
 * The known faults of NVIDIA's libraries in calls that Starling makes. Starling builds cuDNN's graphs directly, without
 * the cuDNN frontend, and therefore has to work around what the frontend works around. At each upgrade, compare the
 * rows with the sources that they name, and with the version checks in the frontend's headers.
 *
 * <p>Two faults of convolutions need no row: Starling never asks for those of three dimensions (pytorch/pytorch#163539,
 * wrong in 16 bits in 9.8 to 9.12) and of 2^31 elements and more (pytorch/pytorch#163171, wrong depthwise in 9.11 to
 * 9.14). The log-sum-exp always lies without gaps, as cuDNN before 9.26 requires (NVIDIA/cudnn-frontend#304).
 */
public final class LibraryFaults {
    /** The first version of cuDNN that is used for attention. */
    public static final long FIRST_ATTENTION = 91002;

    private static final String FORWARD = "cudnn-frontend, node/sdpa_support_surface.h";
    private static final String BACKWARD = "cudnn-frontend, node/scaled_dot_product_flash_attention.h";
    private static final String PYTORCH = "PyTorch, transformers/cuda/sdp_utils.cpp";
    private static final long INDEX = 1L << 31;
    private static final int MAX_BLOCKS = 65_535;
    private static final int HOPPER = 90;
    private static final int BLACKWELL = 10;
    /** Blackwell in robots. */
    private static final int THOR = 11;
    /** Blackwell in workstations. */
    private static final int WORKSTATION = 12;

    private static final List<LibraryFault> ALL = List.of(
            attention(0, FIRST_ATTENTION - 1, a -> true, DECLINE,
                    "9.10.0 and 9.10.1 have known faults in both passes; older versions have no suitable engines",
                    FORWARD + " and " + BACKWARD),
            attention(0, UNFIXED, a -> a.keys() == 1, DECLINE,
                    "one key is not supported, nor the gradient of one query and one key",
                    PYTORCH + ", check_cudnn_tensor_shapes; " + BACKWARD),
            attention(0, UNFIXED, a -> a.batch() > MAX_BLOCKS || a.heads() > MAX_BLOCKS, DECLINE,
                    "more than 65535 sequences or heads are not supported", PYTORCH + ", check_cudnn_tensor_shapes"),
            attention(0, UNFIXED, a -> a.capability() < 80, DECLINE, "attention needs compute capability 8.0", FORWARD),
            attention(0, 92200, a -> isWide(a) && !isMixed(a), DECLINE,
                    "heads wider than 128, except 192 with values of 128, are not relied on before 9.23",
                    PYTORCH + ", check_cudnn_tensor_shapes"),
            attention(0, UNFIXED, a -> a.backward() && isWide(a) && !isMixed(a), DECLINE,
                    "wrong gradients of wide heads on Hopper in 9.11 to 9.13; later the frontend changed the order of "
                    + "the graph for heads of 256, which Starling does not follow",
                    BACKWARD + "; TransformerEngine, fused_attn.cpp; NVIDIA/cudnn-frontend#326"),
            attention(0, UNFIXED, a -> a.backward() && a.queries() == 1, DECLINE,
                    "gradients of keys and values are NaN where a log-sum-exp is below -88.7 (Hopper, 9.25 and 9.26)",
                    "NVIDIA/cudnn-frontend#1072"),
            attention(91900, 92500, a -> a.queries() == 1 && major(a.capability()) >= BLACKWELL
                    && major(a.capability()) <= THOR, DECLINE,
                    "wrong results of one query on Blackwell in 9.19 to 9.25.0, except in 9.24.1",
                    "pytorch/pytorch#193893 and #194927"),
            attention(0, 91801 - 1, a -> a.backward() && a.deterministic() && major(a.capability()) == BLACKWELL,
                    DECLINE,
                    "no deterministic gradients on Blackwell before 9.18.1",
                    BACKWARD + "; TransformerEngine, fused_attn.cpp"),
            attention(0, 91500, a -> a.backward() && a.keys() % 128 != 0, PAD,
                    "NaN or wrong gradients without a padding mask where 128 does not divide the number of keys",
                    BACKWARD + "; NVIDIA/cudnn-frontend#160"),
            attention(0, UNFIXED, a -> a.backward() && (!a.causal() || a.masked()), PAD,
                    "NaN gradients on Hopper without a padding mask where a log-sum-exp is below -88.7",
                    "pytorch/pytorch#196678; NVIDIA/cudnn-frontend#628 and #1072"),
            LibraryFault.of(CUDNN, 0, 91299, LibraryQuery.Recurrence.class, r -> r.type() == DType.BF16, DECLINE,
                    "recurrent layers are not supported in bf16 before 9.13", "pytorch/pytorch#164411"),
            LibraryFault.of(CUDNN, 92100, 92399, LibraryQuery.Convolution.class, LibraryQuery.Convolution::depthwise,
                    DECLINE, "wrong depthwise convolutions after those of other sizes, seen in 9.23.1, not in 9.20; "
                    + "fixed in 9.24", "NVIDIA/cudnn-frontend#442; pytorch/pytorch#188288, #188318 and #189483"),
            LibraryFault.of(CUBLASLT, 0, 130600, LibraryQuery.Product.class,
                    p -> p.interleaved() && major(p.capability()) == WORKSTATION, DECLINE,
                    "reads past operands whose matrices are interleaved, an illegal address if they end their memory",
                    "NVIDIA/TensorRT-LLM#18678; local-inference-lab/vllm#710; pytorch/pytorch#191701"),
            LibraryFault.of(CUBLASLT, 130600, UNFIXED, LibraryQuery.Product.class,
                    p -> p.type() == DType.F32 && p.span() >= INDEX, DECLINE,
                    "an algorithm that is offered fails where an operand spans 2^31 elements of f32",
                    "NVIDIA/raft#3097 and #3098"));

    private LibraryFaults() { }

    /** Returns all known faults. */
    public static List<LibraryFault> all() {
        return ALL;
    }

    /** Returns the first fault with a remedy that affects a query to a version of a library, or {@code null}. */
    public static @Nullable LibraryFault find(Remedy remedy, Library library, long version, LibraryQuery query) {
        for (LibraryFault fault : ALL) {
            if (fault.remedy() == remedy && fault.affects(library, version, query)) {
                return fault;
            }
        }
        return null;
    }

    /** Returns a GPU's compute capability, as 10·major + minor. An emulated GPU counts as Hopper. */
    public static int capability(String architecture) {
        return architecture.startsWith("sm_") ? Integer.parseInt(architecture.substring(3)) : HOPPER;
    }

    private static int major(int capability) {
        return capability / 10;
    }

    private static boolean isWide(LibraryQuery.Attention a) {
        return a.width() > 128 || a.depth() > 128;
    }

    private static boolean isMixed(LibraryQuery.Attention a) {
        return a.width() == 192 && a.depth() == 128;
    }

    private static LibraryFault attention(long first, long last, Predicate<LibraryQuery.Attention> test,
            Remedy remedy, String symptom, String source) {
        return LibraryFault.of(CUDNN, first, last, LibraryQuery.Attention.class, test, remedy, symptom, source);
    }
}
