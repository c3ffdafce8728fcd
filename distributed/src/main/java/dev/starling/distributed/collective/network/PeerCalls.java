package dev.starling.distributed.collective.network;

import dev.starling.distributed.collective.call.CollectiveCall;
import java.nio.charset.StandardCharsets;

/** The calls that a neighbour has sent: of the present collective, and of the next if the neighbour is ahead. */
final class PeerCalls {
    private final long[] sequences = new long[2];
    private final long[] hashes = new long[2];
    private final byte[][] texts = new byte[2][CollectiveCall.MAX_TEXT];
    private final int[] lengths = new int[2];

    void store(NetworkMessage message) {
        int place = (int) (message.sequence() & 1);
        sequences[place] = message.sequence();
        hashes[place] = message.hash();
        lengths[place] = message.textLength();
        message.text(texts[place]);
    }

    boolean has(long sequence) {
        return sequences[(int) (sequence & 1)] == sequence;
    }

    long hash(long sequence) {
        return hashes[(int) (sequence & 1)];
    }

    String text(long sequence) {
        int place = (int) (sequence & 1);
        return new String(texts[place], 0, lengths[place], StandardCharsets.UTF_8);
    }
}
