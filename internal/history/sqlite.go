package history

import _ "modernc.org/sqlite" // the driver
