package dev.starling.jmh;

import dev.starling.jmh.onednn.OneDnnEngine;
import dev.starling.jmh.pytorch.TorchEngine;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
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
         * OpenBLAS may not choose the best kernels for the processor. The C library returns large blocks to the system
         * and takes them again, page by page, unless it is set to keep them; large pages help most networks. With more
         * than one thread, OpenBLAS's own waiting threads and those of OpenMP compete for the cores unless OpenMP's
         * wait without spinning.
         */
        @Override
        List<Map<String, String>> settings(int threads) {
            List<Map<String, String>> all = new ArrayList<>();
            for (String kernels : hasAvx512() ? List.of("Zen", "SkylakeX") : List.of("Zen")) {
                for (String pages : List.of("0", "1")) {
                    Map<String, String> settings = new HashMap<>(KEEP_MEMORY);
                    settings.put("OPENBLAS_CORETYPE", kernels);
                    settings.put("GLIBC_TUNABLES", "glibc.malloc.hugetlb=" + pages);
                    all.add(Map.copyOf(settings));
                    if (threads > 1) {
                        settings.put("GOMP_SPINCOUNT", "0");
                        all.add(Map.copyOf(settings));
                    }
                }
            }
            return all;
        }

        /** Without AVX-512, OpenBLAS ends the process if the environment selects kernels that need it. */
        private static boolean hasAvx512() {
            try {
                return Files.readString(Path.of("/proc/cpuinfo")).contains("avx512f");
            } catch (IOException notLinux) {
                return true;
            }
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

    /** Settings of the GNU C library with which it keeps freed memory. */
    public static final Map<String, String> KEEP_MEMORY = Map.of("MALLOC_MMAP_THRESHOLD_", "4294967296",
        "MALLOC_TRIM_THRESHOLD_", "17179869184", "MALLOC_TOP_PAD_", "67108864");

    /** Starts the engine in this process. */
    public abstract Engine start(int threads);

    /** Returns the environments worth trying, over the parent's without settings of OpenBLAS; the fastest counts. */
    List<Map<String, String>> settings(int threads) {
        return List.of(Map.of());
    }
}
