package dev.starling.cuda;

import static org.assertj.core.api.Assertions.assertThat;
import static org.bytedeco.cuda.global.cublas.CUBLASLT_EPILOGUE_BGRADB;
import static org.bytedeco.cuda.global.cublas.CUBLASLT_EPILOGUE_BIAS;
import static org.bytedeco.cuda.global.cublas.CUBLASLT_EPILOGUE_DEFAULT;
import static org.bytedeco.cuda.global.cublas.CUBLASLT_EPILOGUE_DGELU;
import static org.bytedeco.cuda.global.cublas.CUBLASLT_EPILOGUE_DRELU;
import static org.bytedeco.cuda.global.cublas.CUBLASLT_EPILOGUE_GELU;
import static org.bytedeco.cuda.global.cublas.CUBLASLT_EPILOGUE_GELU_AUX;
import static org.bytedeco.cuda.global.cublas.CUBLASLT_EPILOGUE_GELU_AUX_BIAS;
import static org.bytedeco.cuda.global.cublas.CUBLASLT_EPILOGUE_GELU_BIAS;
import static org.bytedeco.cuda.global.cublas.CUBLASLT_EPILOGUE_RELU;
import static org.bytedeco.cuda.global.cublas.CUBLASLT_EPILOGUE_RELU_BIAS;

import dev.starling.cuda.emulated.FakeLibraries;
import dev.starling.tensor.DType;
import dev.starling.tensor.Device;
import dev.starling.tensor.Tensor;
import dev.starling.tensor.conformance.Conformance;
import dev.starling.tensor.op.Contraction;
import dev.starling.tensor.op.Epilogue;
import java.util.Arrays;
import java.util.stream.Stream;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.DynamicTest;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.TestFactory;
import org.junit.jupiter.api.TestInfo;
import org.junit.jupiter.api.condition.EnabledIf;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** Calls of libraries (layouts, transposes, batches, epilogues), checked by fake libraries on the host. */
@EnabledIf(value = "dev.starling.cuda.emulated.FakeLibraries#areAvailable",
        disabledReason = "needs g++ on Linux on x86-64, and no NVIDIA driver")
class LibraryConformanceTest {
    private static final Device DEVICE = Device.of("cuda-emulated", 1);
    private static final String OPERATIONS = "(gradient of )?(matMul|linear|conv|attention|batchNorm|layerNorm|avgPool"
            + "|lstm|gru|rnn|softmax|logSoftmax).*";

    /** In f32; products and attention in bf16 too. Each type takes kernels that must be compiled. */
    @TestFactory
    Stream<DynamicTest> conforms() {
        String names = OPERATIONS + "f32.*|(gradient of )?(matMul|linear|conv|attention).*bf16.*";
        KernelInventory.compileAhead(DEVICE, 1, name -> name.matches(names));
        return ParallelTests.of(tests(names));
    }

    /** The shapes are unique: the result of a library's test with a shape is remembered. */
    @ParameterizedTest
    @ValueSource(booleans = {false, true})
    void propagatesNanThroughReluEvenIfTheLibraryHidesIt(boolean hides) {
        FakeLibraries.hideNan(hides);
        try {
            for (DType type : new DType[] {DType.F32, DType.BF16}) {
                Tensor x = Tensor.of(new float[] {1, Float.NaN, -1, 2, 3, -4}).reshape(3, 2).to(type);
                Tensor weight = Tensor.full(type, 1, hides ? 21 : 22, 2);
                Tensor bias = Tensor.full(type, -0.5, weight.size(0));
                Tensor[] of = {x, weight, bias};
                Tensor[] there = Arrays.stream(of).map(t -> t.to(DEVICE)).toArray(Tensor[]::new);
                Contraction.Linear layer = new Contraction.Linear(Epilogue.RELU);
                assertThat(Tensor.apply(layer, there)[0].to(DType.F64).toDoubles())
                        .isEqualTo(Tensor.apply(layer, of)[0].to(DType.F64).toDoubles()).contains(Double.NaN, 0.5, 0);
            }
        } finally {
            FakeLibraries.hideNan(false);
        }
    }

    @TestFactory
    @Tag("stress")
    Stream<DynamicTest> conformsInEveryType() {
        return tests(OPERATIONS);
    }

    private static Stream<DynamicTest> tests(String names) {
        return Conformance.of(DEVICE).filter(t -> t.getDisplayName().matches(names));
    }

    @AfterEach
    void everyEpilogueWasUsed(TestInfo test) {
        if (!test.getTestMethod().orElseThrow().getName().equals("conforms")) {
            return;
        }
        for (int epilogue : new int[] {CUBLASLT_EPILOGUE_DEFAULT, CUBLASLT_EPILOGUE_BIAS, CUBLASLT_EPILOGUE_RELU,
            CUBLASLT_EPILOGUE_RELU_BIAS, CUBLASLT_EPILOGUE_GELU, CUBLASLT_EPILOGUE_GELU_BIAS,
            CUBLASLT_EPILOGUE_GELU_AUX, CUBLASLT_EPILOGUE_GELU_AUX_BIAS, CUBLASLT_EPILOGUE_DRELU,
            CUBLASLT_EPILOGUE_DGELU, CUBLASLT_EPILOGUE_BGRADB}) {
            assertThat(FakeLibraries.epilogues(epilogue)).as("epilogue %d", epilogue).isPositive();
        }
    }

    @AfterEach
    void librariesComputeAndReportNoMisuse() {
        assertThat(FakeLibraries.firstMisuse()).isEmpty();
        assertThat(FakeLibraries.computed()).isPositive();
    }
}
