package dev.starling.jmh;

import dev.starling.jmh.onednn.OneDnnEngine;
import dev.starling.jmh.pytorch.TorchEngine;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.HashMap;
import java.util.List;
import java.util.Map;

/** The engines to compare. Each runs in a process of its own, because their thread pools and libraries interfere. */
public enum Contender {
    STARLING {
        @Override
        public Engine start(int threads) {
            return new StarlingEngine(threads);
        }
    },
    PYTORCH {
        @Override
        public Engine start(int threads) {
            return new TorchEngine(threads);
        }

        /**
         * OpenBLAS may not choose the best kernels for the processor. With more than one thread, its own waiting
         * threads and those of OpenMP compete for the cores unless OpenMP's wait without spinning.
         */
        @Override
        List<Map<String, String>> settings(int threads) {
            if (System.getenv("OPENBLAS_CORETYPE") != null) {
                return waiting(Map.of(), threads);
            }
            return (hasAvx512() ? List.of("Zen", "SkylakeX") : List.of("Zen")).stream()
                .flatMap(kernels -> waiting(Map.of("OPENBLAS_CORETYPE", kernels), threads).stream())
                .toList();
        }

        /** Without AVX-512, OpenBLAS ends the process if the environment selects kernels that need it. */
        private static boolean hasAvx512() {
            try {
                return Files.readString(Path.of("/proc/cpuinfo")).contains("avx512f");
            } catch (IOException notLinux) {
                return true;
            }
        }

        private static List<Map<String, String>> waiting(Map<String, String> kernels, int threads) {
            if (threads == 1) {
                return List.of(kernels);
            }
            Map<String, String> parked = new HashMap<>(kernels);
            parked.put("GOMP_SPINCOUNT", "0");
            return List.of(kernels, Map.copyOf(parked));
        }
    },
    ONEDNN {
        @Override
        public Engine start(int threads) {
            return new OneDnnEngine();
        }

        @Override
        List<Map<String, String>> settings(int threads) {
            return List.of(Map.of("OMP_NUM_THREADS", Integer.toString(threads)));
        }
    };

    /** Starts the engine in this process. */
    public abstract Engine start(int threads);

    /** Returns the environments worth trying; the fastest counts. */
    List<Map<String, String>> settings(int threads) {
        return List.of(Map.of());
    }
}
