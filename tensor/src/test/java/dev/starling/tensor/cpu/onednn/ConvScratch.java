package dev.starling.tensor.cpu.onednn;

import dev.starling.tensor.host.HostMemory;

/** The scratch memory that the calling thread's next convolution uses. */
public final class ConvScratch {
    private static final long BYTES = 64 << 10;

    private ConvScratch() {
    }

    /** Fills the memory with NaN, so that a kernel that reads what it has not written fails its test. */
    public static void poison() {
        if (OneDnn.available()) {
            try (Session session = Session.acquire()) {
                for (Session.Use use : Session.Use.values()) {
                    HostMemory.ALL.asSlice(session.memory(use, BYTES), BYTES).fill((byte) -1);
                }
            }
        }
    }
}
