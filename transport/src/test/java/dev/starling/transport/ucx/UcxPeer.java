package dev.starling.transport.ucx;

import dev.starling.transport.Secret;
import dev.starling.transport.TransportConfig;
import dev.starling.transport.spi.Link;
import dev.starling.transport.spi.RemoteWrites;
import dev.starling.transport.spi.Wire;
import java.io.IOException;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.concurrent.TimeUnit;
import org.agrona.concurrent.UnsafeBuffer;

/**
 * A peer in another process. It prints its address; it answers the first message, which contains the sender's address,
 * with the key of 1 MiB of its memory, and every later one with the first 8 bytes of this memory.
 */
final class UcxPeer {
    static final int MEMORY = 1 << 20;

    private Link link;

    private UcxPeer() { }

    /** Arguments: options of the wire, {@code name=value}. */
    public static void main(String[] args) {
        TransportConfig config = TransportConfig.of("ucx", Secret.random()).option("writes", "network");
        for (String option : args) {
            config = config.option(option.substring(0, option.indexOf('=')), option.substring(option.indexOf('=') + 1));
        }
        try (Wire wire = new UcxWireProvider().open(config.wire()); Arena arena = Arena.ofShared()) {
            System.out.println(wire.address());
            MemorySegment memory = arena.allocate(MEMORY);
            new UcxPeer().serve(wire, memory, ((RemoteWrites) wire).register(memory).key());
        }
    }

    private void serve(Wire wire, MemorySegment memory, byte[] key) {
        UnsafeBuffer answer = new UnsafeBuffer(key);
        List<UnsafeBuffer> answers = new ArrayList<>();
        long end = System.nanoTime() + TimeUnit.SECONDS.toNanos(50);
        long idleSince = System.nanoTime();
        while (System.nanoTime() - end < 0) {
            int work = wire.poll((buffer, offset, length) -> {
                if (link == null) {
                    link = wire.open(buffer.getStringWithoutLengthAscii(offset, length));
                    answers.add(answer);
                } else {
                    UnsafeBuffer first = new UnsafeBuffer(new byte[Long.BYTES]);
                    first.putLong(0, memory.get(ValueLayout.JAVA_LONG, 0));
                    answers.add(first);
                }
            }, 16);
            while (!answers.isEmpty()) {
                UnsafeBuffer next = answers.getFirst();
                int code = link.offer(next, 0, next.capacity(), null, 0, 0);
                if (code == Wire.CLOSED) {
                    return;
                }
                if (code != Wire.SENT) {
                    break;
                }
                answers.removeFirst();
                work++;
            }
            if (work == 0) {
                wire.idle(System.nanoTime() - idleSince);
            } else {
                idleSince = System.nanoTime();
            }
        }
    }

    /** Starts a process of this class with options of the wire; its standard output can be read. */
    static Process start(String... options) throws IOException {
        ProcessBuilder builder = builder(UcxPeer.class, List.of());
        Collections.addAll(builder.command(), options);
        return builder.redirectError(ProcessBuilder.Redirect.INHERIT).start();
    }

    /** Returns the command that starts a process of the class. */
    static ProcessBuilder builder(Class<?> main, List<String> flags) {
        List<String> command = new ArrayList<>(List.of(ProcessHandle.current().info().command().orElseThrow(),
                "--add-exports", "java.base/jdk.internal.misc=ALL-UNNAMED", "--sun-misc-unsafe-memory-access=allow",
                "--enable-native-access=ALL-UNNAMED", "-Xmx64m", "-XX:+UseSerialGC"));
        command.addAll(flags);
        command.addAll(List.of("-cp", System.getProperty("java.class.path"), main.getName()));
        return new ProcessBuilder(command);
    }
}
