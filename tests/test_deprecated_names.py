"""Deprecated names in unusual spellings are looked for; names that only look alike cost no reading of the file."""

from __future__ import annotations

import pytest

from torchlint import SourceFile, lint, select
from torchlint.engine.gate import by_words

SELECTION = select(["deprecated-api"])


@pytest.mark.parametrize(
    "text",
    [
        "import torch.nn.functional as fn\ny = fn.upsample(x, 2)\n",
        "from torch.nn.functional import (\n    relu,\n    upsample as up,\n)\ny = up(x, 2)\n",
        "from torch.nn import functional\ny = functional . upsample_bilinear(x, 2)\n",
        "from torch.cuda import amp\nwith amp.autocast():\n    pass\n",
        "from torch import cuda as c\ns = c.amp.GradScaler()\n",
        "import torch\ns = torch.cuda. \\\n    amp.GradScaler()\n",
        "from torch.cuda.amp import (\n    autocast,\n    GradScaler as Scaler,\n)\ns = Scaler()\n",
        "import torch\na = torch.meshgrid(f(x), y)\n",
        "import numpy as np, torch\na = np.meshgrid(x), torch.meshgrid(x, y)\n",
        "import torch\na = torch.meshgrid(x, y, indexing='ij'), torch.meshgrid(x, y)\n",
        "import torch\na = torch.meshgrid(f(x, indexing='ij'), y)\n",
        "import torch.nn.functional as F\na = F.grid_sample(x,\n    grid)\n",
        "from torch._utils import is_compiling\nx = is_compiling()\n",
        "import torch\nx = torch._utils.is_compiling()\n",
        "from torch import \\\n    range as r\nx = r(3)\n",
        "from torch.nn.init import (\n    zeros_,\n    xavier_uniform,\n)\nxavier_uniform(w)\n",
        "import torch.nn as nn\nloss = nn.MSELoss(reduce = False)\n",
        "import torch.nn.functional as F\nloss = F.mse_loss(x, y, reduce=False)\n",
        "from torch.testing import assert_allclose as same\nsame(x, y)\n",
        "import torch\nx = torch.cholesky(y)\n",
        "from torchvision import models\nnet = models.resnet18(pretrained = True)\n",
        "from torchvision.transforms import v2 as T\nmake = T.ToTensor()\n",
        "import torch\ny = torch.rand(3)\nx = y[y.gt(0) . byte()]\n",
        "from torch import rand, uint8\ny = rand(3)\nx = y[y.gt(0).to(uint8)]\n",
        "import torch as t\ny = t.rand(3)\nx = y[:, t.ByteTensor(3)]\n",
    ],
)
def test_looked_for(text: str) -> None:
    assert [finding.name for finding in lint(SourceFile("nets.py", text.encode()), SELECTION)] == ["deprecated-api"]


@pytest.mark.parametrize(
    "text",
    [
        "from torch_scatter import scatter\ny = scatter(x, index, reduce='sum')\n",
        "import numpy as np, torch\na = np.meshgrid(x, y)\n",
        "import torch\na = torch.meshgrid(x, y, indexing='ij')\n",
        "import torch.nn.functional as F\ny = F.relu(self.upsample(x))\n",
        "import torch\nwith torch.autocast('cuda'), torch.amp.autocast('cpu'):\n    pass\n",
        "import torch\nx = torch.linalg.cholesky(y)\nif torch.compiler.is_compiling():\n    pass\n",
        "from torch.utils.data import Dataset\nx = uniform(3)\n",
        "from torchvision import transforms\nmake = transforms.ToTensor()\n",
        "import numpy as np, torch\nx = image[mask].astype(np.uint8)\n",
    ],
)
def test_not_even_read(text: str) -> None:
    assert by_words(SELECTION.rules, text.encode()) == []
