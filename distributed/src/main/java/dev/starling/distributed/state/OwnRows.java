package dev.starling.distributed.state;

import dev.starling.distributed.Collectives;
import dev.starling.distributed.DistributedException;
import dev.starling.nn.data.Share;
import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.List;

/** Lets ranks with rows of their own learn how many rows the others have. */
public final class OwnRows {
    private OwnRows() { }

    /**
     * Returns this rank's share of every batch. Collective; waits.
     *
     * @param rows number of rows of this rank
     * @throws DistributedException if no rank has any
     */
    public static Share.OwnPart share(Collectives collectives, int rank, int rows) {
        List<Integer> sizes = new ArrayList<>();
        for (byte[] size : collectives.exchange(ByteBuffer.allocate(Integer.BYTES).putInt(rows).array())) {
            sizes.add(ByteBuffer.wrap(size).getInt());
        }
        return share(rank, sizes);
    }

    /**
     * Returns a rank's share of every batch.
     *
     * @param sizes number of rows of each rank
     * @throws DistributedException if no rank has any
     */
    public static Share.OwnPart share(int rank, List<Integer> sizes) {
        if (sizes.stream().allMatch(size -> size == 0)) {
            throw new DistributedException("none of " + sizes.size() + " ranks has a row to train on; at least one "
                    + "of them needs a data set that is not empty");
        }
        return new Share.OwnPart(rank, sizes);
    }
}
