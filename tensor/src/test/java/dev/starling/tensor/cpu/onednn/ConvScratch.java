package dev.starling.tensor.cpu.onednn;

import dev.starling.tensor.host.HostMemory;

/** The scratch memory that the calling thread's next convolution uses. */
public final class ConvScratch {
    private static final long BYTES = 64 << 10;

    private ConvScratch() {
    }

    /** Fills it with NaN, so that a kernel which reads what it has not written cannot pass. */
    public static void poison() {
        if (OneDnn.available()) {
            try (Session session = Session.borrow()) {
                for (Session.Use use : Session.Use.values()) {
                    HostMemory.ALL.asSlice(session.memory(use, BYTES), BYTES).fill((byte) -1);
                }
            }
        }
    }
}
